// Plain and compressed files read in order.
#include "data/byte_source.h"

#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "data/temp_folder.h"

namespace trireme {
namespace {

using testing_data::expect_error;
using testing_data::TempFolder;
using testing_data::write_bytes;

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string xz(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr,
                                    reinterpret_cast<const std::uint8_t*>(text.data()), text.size(),
                                    reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size()),
            LZMA_OK);
  out.resize(size);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

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

INSTANTIATE_TEST_SUITE_P(Forms, CompressedSources, ::testing::Values(gzip, xz, zstd));

TEST(ByteSource, MissingFileIsTheUsersFault) {
  expect_error(ExitCode::bad_input, {"/nowhere/file"}, [] { open_bytes("/nowhere/file"); });
}

}  // namespace
}  // namespace trireme
