// Tests of reading plain and compressed files sequentially.
#include "data/documents/byte_source.h"

#include <gmock/gmock.h>

#include "data/compress.h"
#include "data/temp_folder.h"
#include "refusal.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_data::expect_error;
using testing_data::gzip;
using testing_data::skippable_frame;
using testing_data::TempFolder;
using testing_data::write_bytes;
using testing_data::xz;
using testing_data::zstd;
using testing_data::zstd_window;

std::string plain(const std::string& text) {
  return text;
}

std::string read_all(const std::string& path, std::size_t piece) {
  const std::unique_ptr<ByteSource> source = open_bytes(path);
  std::string all, buffer(piece, '\0');
  while (const std::size_t n = source->read(buffer.data(), piece)) all.append(buffer, 0, n);
  EXPECT_EQ(source->consumed(), fs::file_size(path));
  EXPECT_EQ(source->read(buffer.data(), piece), 0u);
  return all;
}

using Compress = std::string (*)(const std::string&);
class ByteSources : public ::testing::TestWithParam<Compress> {
 protected:
  static std::string text() {
    std::string text;
    for (std::int64_t i = 0; i < 60'000; ++i)
      text += std::to_string(i * i % 7919) + (i % 9 ? " " : "\n");
    return text;
  }
};

TEST_P(ByteSources, ContentComesBackInAnyPieces) {
  const TempFolder folder;
  write_bytes(folder / "file", GetParam()(text()));
  for (const std::size_t piece : {std::size_t{1000}, std::size_t{1} << 20})
    EXPECT_EQ(read_all(folder / "file", piece), text());
}

TEST_P(ByteSources, EmptyContentAndSeveralStreams) {
  const TempFolder folder;
  write_bytes(folder / "empty", GetParam()(""));
  EXPECT_EQ(read_all(folder / "empty", 100), "");
  write_bytes(folder / "two", GetParam()("one\n") + GetParam()("two\n"));
  EXPECT_EQ(read_all(folder / "two", 100), "one\ntwo\n");
}

INSTANTIATE_TEST_SUITE_P(Forms, ByteSources, ::testing::Values(plain, gzip, xz, zstd));

class CompressedSources : public ByteSources {};

TEST_P(CompressedSources, CutOffOrDamagedFilesAreNamed) {
  const TempFolder folder;
  const std::string whole = GetParam()(text());
  for (const std::size_t size : {whole.size() - 1, whole.size() / 2, std::size_t{20}}) {
    write_bytes(folder / "file", whole.substr(0, size));
    expect_error(ExitCode::bad_input, {"/file'", "truncated"},
                 [&] { read_all(folder / "file", 4096); });
  }
  std::string damaged = whole;
  for (std::size_t i = 0; i < 40; ++i) damaged[whole.size() / 2 + i] ^= 0x55;
  write_bytes(folder / "file", damaged);
  expect_error(ExitCode::bad_input, {"/file'", "damaged"},
               [&] { read_all(folder / "file", 4096); });
}

TEST_P(CompressedSources, NulsBetweenAndAfterStreamsArePadding) {
  const TempFolder folder;
  const std::string nuls(1021, '\0');
  write_bytes(folder / "file", GetParam()("one\n") + nuls + GetParam()("two\n") + nuls);
  EXPECT_EQ(read_all(folder / "file", 100), "one\ntwo\n");
}

TEST_P(CompressedSources, WhatElseFollowsIsRefused) {
  const TempFolder folder;
  for (const std::string& rest :
       {std::string("rest"), std::string("\0\0{\"text\"", 8), std::string("BZh9")}) {
    write_bytes(folder / "file", GetParam()("one\n") + rest);
    EXPECT_THAT(refusal_of([&] { read_all(folder / "file", 100); }),
                AllOf(HasSubstr("/file' is damaged"), HasSubstr("after its")));
  }
}

TEST_P(CompressedSources, LargeOutputOfTheLastBytesIsReadToItsEnd) {
  const TempFolder folder;
  const std::string zeros(5 << 20, 'a');
  write_bytes(folder / "file", GetParam()(zeros));
  for (const std::size_t piece : {std::size_t{77777}, std::size_t{1} << 22}) {
    EXPECT_EQ(read_all(folder / "file", piece), zeros);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, CompressedSources, ::testing::Values(gzip, xz, zstd));

TEST(ZstdSource, ReadsAnyWindowThatFitsIntoMemory) {
  const TempFolder folder;
  for (int log = 20; log <= 31; ++log) {
    write_bytes(folder / "file", zstd_window("some text\n", log));
    const std::string refusal =
        refusal_of([&] { EXPECT_EQ(read_all(folder / "file", 100), "some text\n"); });
    if (log <= 29) {  // 1 GiB is always allowed
      EXPECT_EQ(refusal, "accepted") << log;
    } else if (refusal != "accepted") {
      EXPECT_THAT(refusal, HasSubstr(fmt::format("a window of {} MiB", 1 << (log - 20))));
    }
  }
  write_bytes(folder / "file", zstd_window("some text\n", 35));
  EXPECT_THAT(
      refusal_of([&] { read_all(folder / "file", 100); }),
      AllOf(HasSubstr("a window of 32768 MiB"), HasSubstr("--long=35"), Not(HasSubstr("damaged"))));
}

TEST(ZstdSource, NamesTheWindowOfAFrameInOneSegment) {
  const TempFolder folder;
  // A frame header with a single segment and a content size of 2^40 bytes.
  write_bytes(folder / "file", std::string("\x28\xb5\x2f\xfd\xe0\0\0\0\0\0\x01\0\0\x01\0\0", 16));
  EXPECT_THAT(refusal_of([&] { read_all(folder / "file", 100); }),
              AllOf(HasSubstr("a window of 1048576 MiB"), Not(HasSubstr("damaged"))));
}

TEST(ZstdSource, PassesOverSkippableFrames) {
  const TempFolder folder;
  for (int variant = 0; variant < 16; ++variant) {
    write_bytes(folder / "file", skippable_frame("0123456789", variant) + skippable_frame("") +
                                     zstd("one\n") + skippable_frame("x", variant) + zstd("two\n") +
                                     skippable_frame("table"));
    EXPECT_EQ(read_all(folder / "file", 100), "one\ntwo\n") << variant;
  }
  write_bytes(folder / "file", skippable_frame("nothing else"));
  EXPECT_EQ(read_all(folder / "file", 100), "");
  // lz4 uses the same skippable frames.
  write_bytes(folder / "file", skippable_frame("abc") + "\x04\"M\x18@@\xc0");
  EXPECT_THAT(refusal_of([&] { read_all(folder / "file", 100); }),
              HasSubstr("compressed with lz4"));
}

TEST(ByteSource, RefusesWhatItCannotUnpackWhateverTheName) {
  using namespace std::string_view_literals;
  const TempFolder folder;
  const std::pair<std::string_view, std::string> cases[] = {
      {"BZh91AY&SY]\xf2"sv, "bzip2"},
      {"\x04\"M\x18@@\xc0"sv, "lz4"},
      {"]\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0="sv, "lzma"},
      {"PK\x03\x04\x14\0"sv, "zip"},
      {"7z\xbc\xaf\x27\x1c\0\x04"sv, "7-Zip"},
      {"\xff\x06\0\0sNaPpY"sv, "snappy"}};
  for (const auto& [bytes, name] : cases) {
    write_bytes(folder / "file.txt", bytes);
    EXPECT_THAT(refusal_of([&] { open_bytes(folder / "file.txt"); }),
                AllOf(HasSubstr("file.txt' is "), HasSubstr(name)));
  }
}

TEST(ByteSource, AFileThatIsNamedLikeACompressedOneIsNoText) {
  const TempFolder folder;
  for (const std::string name :
       {"a.jsonl.gz", "a.txt.XZ", "a.zst", "a.jsonl.br", "a.json.bz2", "a.lz4"}) {
    write_bytes(folder / name, "{\"text\": \"plain\"}\n");
    EXPECT_THAT(refusal_of([&] { open_bytes(folder / name); }),
                AllOf(HasSubstr(name), HasSubstr("its contents do not match")));
    write_bytes(folder / name, "");
    EXPECT_THAT(refusal_of([&] { open_bytes(folder / name); }),
                AllOf(HasSubstr(name + "' is empty"), Not(HasSubstr("rename"))));
  }
}

TEST(ByteSource, MissingFileIsTheUsersFault) {
  expect_error(ExitCode::bad_input, {"/nowhere/file"}, [] { open_bytes("/nowhere/file"); });
}

}  // namespace
}  // namespace trireme
