// Tests of indexed token files: round trips, Megatron's bytes, and errors for invalid files.
#include "data/indexed_dataset.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>

#include "data/indexed_writer.h"
#include "data/temp_folder.h"
#include "traced.h"

namespace trireme {
namespace {

using testing_data::expect_error;
using testing_data::TempFolder;
using testing_data::write_bytes;

template <class T>
std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

// Writes three documents: [1 2 3], empty, [4 5] [6].
void write_small(const std::string& prefix, TokenType type = TokenType::u16) {
  IndexedDatasetWriter writer(prefix, type);
  writer.add_document(std::vector<std::int32_t>{1, 2, 3});
  writer.add_document({}, {});
  writer.add_document(std::vector<std::int32_t>{4, 5, 6}, std::vector<std::int32_t>{2, 1});
  writer.finish();
}

std::string small_index(std::uint8_t code = 8, std::int64_t width = 2) {
  return std::string("MMIDIDX\0\0", 9) + raw<std::uint64_t>({1}) + raw<std::uint8_t>({code}) +
         raw<std::uint64_t>({3, 4}) + raw<std::int32_t>({3, 2, 1}) +
         raw<std::int64_t>({0, 3 * width, 5 * width}) + raw<std::int64_t>({0, 1, 1, 3});
}

TEST(IndexedDataset, WritesMegatronsBytes) {
  const TempFolder folder;
  write_small(folder / "a");
  EXPECT_EQ(read_file(folder / "a.bin"), raw<std::uint16_t>({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read_file(folder / "a.idx"), small_index());
  write_small(folder / "b", TokenType::i32);
  EXPECT_EQ(read_file(folder / "b.bin"), raw<std::int32_t>({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read_file(folder / "b.idx"), small_index(4, 4));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 4);
}

TEST(IndexedDataset, ReadsBack) {
  const TempFolder folder;
  write_small(folder / "a");
  for (const char* name : {"a", "a.bin", "a.idx"}) {
    const IndexedDataset data(folder / name);
    EXPECT_EQ(data.sequences(), 3);
    EXPECT_EQ(data.documents(), 3);
    EXPECT_EQ(data.tokens(), 6);
    EXPECT_EQ(data.token_type(), TokenType::u16);
    EXPECT_FALSE(data.has_modes());
    EXPECT_THAT(data.lengths(0, 3), ::testing::ElementsAre(3, 2, 1));
    EXPECT_EQ(data.document_of(0), 0);
    EXPECT_EQ(data.document_of(1), 2);
    EXPECT_EQ(data.document_of(2), 2);
    std::vector<std::int32_t> tokens(2);
    data.read(0, 1, 2, tokens.data());
    EXPECT_THAT(tokens, ::testing::ElementsAre(2, 3));
  }
}

TEST(IndexedDataset, EmptyFilesAreSound) {
  const TempFolder folder;
  IndexedDatasetWriter(folder / "a", TokenType::u16).finish();
  const IndexedDataset data(folder / "a");
  EXPECT_EQ(data.sequences(), 0);
  EXPECT_EQ(data.documents(), 0);
}

TEST(IndexedDataset, ReadsEveryIntegerTypeAndModes) {
  const TempFolder folder;
  const std::function<std::string(int)> bins[] = {
      nullptr,
      [](int i) { return raw<std::uint8_t>({static_cast<std::uint8_t>(i)}); },
      [](int i) { return raw<std::int8_t>({static_cast<std::int8_t>(i)}); },
      [](int i) { return raw<std::int16_t>({static_cast<std::int16_t>(i)}); },
      [](int i) { return raw<std::int32_t>({i}); },
      [](int i) { return raw<std::int64_t>({i}); }};
  for (std::uint8_t code = 1; code <= 5; ++code) {
    std::string bin;
    for (int i = 1; i <= 6; ++i) bin += bins[code](i);
    write_bytes(folder / "a.bin", bin);
    write_bytes(folder / "a.idx",
                small_index(code, static_cast<std::int64_t>(bin.size()) / 6) + "\1\2\1");
    const IndexedDataset data(folder / "a");
    EXPECT_TRUE(data.has_modes());
    std::vector<std::int32_t> tokens(2);
    data.read(1, 0, 2, tokens.data());
    EXPECT_THAT(tokens, ::testing::ElementsAre(4, 5)) << name_of(data.token_type());
  }
}

TEST(IndexedDataset, LongSequencesAreReadWhole) {
  const TempFolder folder;
  std::vector<std::int32_t> tokens(300'000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i % 65000);
  IndexedDatasetWriter writer(folder / "a", TokenType::u16);
  writer.add_document(tokens);
  writer.finish();
  std::vector<std::int32_t> back(tokens.size());
  IndexedDataset(folder / "a").read(0, 0, static_cast<std::int64_t>(back.size()), back.data());
  EXPECT_EQ(back, tokens);
}

TEST(IndexedDataset, FindsTokensOutsideTheVocabulary) {
  const TempFolder folder;
  IndexedDatasetWriter writer(folder / "a", TokenType::i32);
  writer.add_document(std::vector<std::int32_t>{1, 2});
  writer.add_document(std::vector<std::int32_t>{3, 4, 50, 6}, std::vector<std::int32_t>{1, 3});
  writer.add_document(std::vector<std::int32_t>{1, -7});
  writer.finish();
  const IndexedDataset data(folder / "a");
  expect_error(ExitCode::bad_input,
               {"a.bin", "token 2 of document 1 is 50", "vocabulary of 50 ids"}, [&] {
                 std::vector<std::int32_t> ids(3);
                 data.read(2, 0, 3, ids.data());
                 data.check_ids(2, 0, 3, ids.data(), 50);
               });
  expect_error(ExitCode::bad_input, {"token 1 of document 2 is -7"},
               [&] { data.check_all_ids(51); });
  expect_error(ExitCode::bad_input, {"is 50"}, [&] { data.check_all_ids(7); });
}

TEST(IndexedDataset, RefusesEveryWrongField) {
  const TempFolder folder;
  const std::string good = small_index();
  const auto expect_refused = [&](const std::string& idx, std::vector<std::string> parts) {
    write_bytes(folder / "a.bin", std::string(12, '\1'));
    write_bytes(folder / "a.idx", idx);
    parts.push_back("a.idx");
    expect_error(ExitCode::bad_input, parts, [&] { IndexedDataset data(folder / "a"); });
  };
  const auto with = [&](std::size_t at, const std::string& bytes) {
    std::string idx = good;
    return idx.replace(at, bytes.size(), bytes);
  };
  for (std::size_t size = 0; size < good.size(); ++size) expect_refused(good.substr(0, size), {});
  expect_refused(good + "x", {"header requires"});
  expect_refused(with(0, "x"), {"MMIDIDX"});
  expect_refused(with(9, raw<std::uint64_t>({2})), {"version 2"});
  expect_refused(with(17, raw<std::uint8_t>({0})), {"code 0"});
  expect_refused(with(17, "\x09"), {"code 9"});
  expect_refused(with(17, "\x07"), {"f32"});
  const std::uint64_t huge[] = {4, std::uint64_t{1} << 62, ~std::uint64_t{0},
                                ~std::uint64_t{0} / 12};
  for (const std::uint64_t count : huge) {
    expect_refused(with(18, raw<std::uint64_t>({count})), {});
    if (count != 4) expect_refused(with(26, raw<std::uint64_t>({count})), {});
  }
  expect_refused(good.substr(0, 26) + raw<std::uint64_t>({0}) + good.substr(34, 36),
                 {"documents is empty"});
  expect_refused(with(34, raw<std::int32_t>({-1})), {"sequence 0 has length -1"});
  expect_refused(with(34, raw<std::int32_t>({7})), {"a.bin", "sequence 0"});
  expect_refused(with(46, raw<std::int64_t>({-2})), {"sequence 0 begins at byte -2"});
  expect_refused(with(46, raw<std::int64_t>({1})), {"begins at byte 1"});
  expect_refused(with(54, raw<std::int64_t>({10})), {"sequence 1", "truncated"});
  expect_refused(with(54, raw<std::int64_t>({std::int64_t{1} << 62})), {"sequence 1"});
  expect_refused(with(70, raw<std::int64_t>({1})), {"begins at sequence 1"});
  expect_refused(with(78, raw<std::int64_t>({2})), {"document 1 ends at sequence 1"});
  expect_refused(with(94, raw<std::int64_t>({2})), {"end at sequence 2"});
  expect_refused(with(94, raw<std::int64_t>({5})), {"end at sequence 5"});
}

TEST(IndexedDataset, RefusesTruncatedOrMissingFiles) {
  const TempFolder folder;
  write_small(folder / "a");
  write_bytes(folder / "a.bin", std::string(11, '\1'));
  expect_error(ExitCode::bad_input, {"a.bin", "11 bytes", "truncated"},
               [&] { IndexedDataset data(folder / "a"); });
  fs::remove(folder / "a.bin");
  expect_error(ExitCode::bad_input, {"a.bin"}, [&] { IndexedDataset data(folder / "a"); });
  expect_error(ExitCode::bad_input, {"b.idx"}, [&] { IndexedDataset data(folder / "b"); });
}

TEST(IndexedDataset, FileThatShrinksWhileOpenIsAnErrorAndNoCrash) {
  const TempFolder folder;
  write_small(folder / "a");
  const IndexedDataset data(folder / "a");
  fs::resize_file(folder / "a.bin", 8);
  std::vector<std::int32_t> tokens(2);
  expect_error(ExitCode::bad_input, {"a.bin"}, [&] { data.read(1, 0, 2, tokens.data()); });
}

TEST(IndexedDatasetWriter, AppendsOtherFiles) {
  const TempFolder folder;
  write_small(folder / "a");
  IndexedDatasetWriter writer(folder / "b", TokenType::u16);
  writer.add_dataset(IndexedDataset(folder / "a"));
  writer.add_document(std::vector<std::int32_t>{9});
  writer.add_dataset(IndexedDataset(folder / "a"));
  writer.finish();
  EXPECT_EQ(read_file(folder / "b.bin"),
            raw<std::uint16_t>({1, 2, 3, 4, 5, 6, 9, 1, 2, 3, 4, 5, 6}));
  const IndexedDataset data(folder / "b");
  EXPECT_THAT(data.lengths(0, 7), ::testing::ElementsAre(3, 2, 1, 1, 3, 2, 1));
  std::vector<std::int64_t> starts;
  for (std::int64_t d = 0; d <= data.documents(); ++d) starts.push_back(data.document_start(d));
  EXPECT_THAT(starts, ::testing::ElementsAre(0, 1, 1, 3, 4, 5, 5, 7));
  write_small(folder / "c", TokenType::i32);
  expect_error(ExitCode::bad_input, {"/a", "u16", "i32"}, [&] {
    IndexedDatasetWriter(folder / "d", TokenType::i32).add_dataset(IndexedDataset(folder / "a"));
  });
}

TEST(IndexedDatasetWriter, KeepsModesWhenAllFilesHaveThem) {
  const TempFolder folder;
  for (const char* name : {"plain", "modes"}) write_small(folder / name);
  write_bytes(folder / "modes.idx", small_index() + raw<std::int8_t>({0, 7, 1}));
  IndexedDatasetWriter writer(folder / "both", TokenType::u16);
  writer.add_dataset(IndexedDataset(folder / "modes"));
  expect_error(ExitCode::bad_input, {"/plain", "which has no modes"},
               [&] { writer.add_dataset(IndexedDataset(folder / "plain")); });
  writer.add_dataset(IndexedDataset(folder / "modes"));
  writer.finish();
  EXPECT_TRUE(read_file(folder / "both.idx").ends_with(raw<std::int8_t>({0, 7, 1, 0, 7, 1})));
  EXPECT_TRUE(IndexedDataset(folder / "both").has_modes());
  IndexedDatasetWriter other(folder / "other", TokenType::u16);
  other.add_dataset(IndexedDataset(folder / "plain"));
  expect_error(ExitCode::bad_input, {"/modes", "which has modes (multimodal data)"},
               [&] { other.add_dataset(IndexedDataset(folder / "modes")); });
}

// Writes three sequences of three tokens that are all `value`.
void write_pair(const std::string& prefix, std::int32_t value) {
  IndexedDatasetWriter writer(prefix, TokenType::u16);
  for (int i = 0; i < 3; ++i) writer.add_document(std::vector<std::int32_t>(3 + value, value));
  writer.finish();
}

// Returns the value of write_pair(), or 0 if the files are rejected, or -1 if the index and the
// tokens belong to different pairs.
int value_of(const std::string& prefix) {
  try {
    const IndexedDataset data(prefix);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(data.length(2)));
    data.read(2, 0, data.length(2), ids.data());
    const bool whole = std::ranges::all_of(ids, [&](int id) { return id == ids.front(); });
    return whole && data.length(2) == 3 + ids.front() ? ids.front() : -1;
  } catch (const Error&) {
    return 0;
  }
}

TEST(IndexedDatasetWriter, AKillNeverLeavesAnOldIndexOverNewTokens) {
  const TempFolder folder;
  const std::string prefix = folder / "a";
  const auto write_new = [&] { write_pair(prefix, 2); };
  const int calls = run_traced(write_new).system_calls;
  std::map<int, int> seen;
  for (int kill_at = 0; kill_at < calls; ++kill_at) {
    write_pair(prefix, 1);
    EXPECT_TRUE(run_killed_at(kill_at, write_new).killed);
    ++seen[value_of(prefix)];
  }
  EXPECT_GT(seen[1], 0);  // the old pair
  EXPECT_GT(seen[0], 0);  // no index
  EXPECT_GT(seen[2], 0);  // the new pair
  EXPECT_EQ(seen.size(), 3u);
  write_new();
  EXPECT_EQ(value_of(prefix), 2);
}

TEST(IndexedDatasetWriter, EachStepIsDurableBeforeTheNext) {
  const TempFolder folder;
  const std::string prefix = folder / "a", top = fs::path(prefix).parent_path();
  write_pair(prefix, 1);
  const std::vector<std::string> calls = run_traced([&] { write_pair(prefix, 2); }).calls;
  const std::vector<std::string> expected{
      "fsync " + prefix + ".bin.tmp",  "fsync " + prefix + ".idx.tmp",
      "unlink " + prefix + ".idx",     "fsync " + top,
      "rename " + prefix + ".bin.tmp", "fsync " + top,
      "rename " + prefix + ".idx.tmp", "fsync " + top};
  ASSERT_GE(calls.size(), expected.size());
  EXPECT_EQ(std::vector(calls.begin(), calls.begin() + static_cast<int>(expected.size())),
            expected);
}

TEST(IndexedDataset, IsNeverMixedUpWhenItIsReplacedWhileItIsOpened) {
  const TempFolder folder;
  const std::string prefix = folder / "a";
  write_pair(prefix, 1);
  const auto read = [&] { std::_Exit(10 + value_of(prefix)); };
  const int calls = run_traced(read).system_calls;
  std::map<int, int> seen;
  for (int replace_at = 0; replace_at < calls; ++replace_at) {
    write_pair(prefix, 1);
    const Traced reader = run_traced(read, [&](int call) {
      if (call == replace_at) write_pair(prefix, 2);
      return true;
    });
    ++seen[reader.exit_code - 10];
  }
  EXPECT_GT(seen[2], 0);  // replaced before it was opened
  EXPECT_GT(seen[1], 0);  // replaced after it was opened
  EXPECT_EQ(seen.count(-1), 0u);
}

TEST(IndexedDataset, SaysThatAnIndexIsMissing) {
  const TempFolder folder;
  write_small(folder / "a");
  fs::remove(folder / "a.idx");
  expect_error(ExitCode::bad_input, {"a.bin", "a.idx", "writing the pair was interrupted"},
               [&] { IndexedDataset(folder / "a"); });
}

// Offsets truncated to 32 bits, signed and unsigned, as 32-bit additions produce them.
TEST(IndexedDataset, OffsetsThatWrappedAreNamedAndWrittenAgain) {
  for (const bool with_sign : {true, false}) {
    const TempFolder folder;
    const std::int32_t third = (1 << 30) - 1;  // of i32: almost 4 GiB
    const std::vector<std::int64_t> offsets = {0, 4LL * third, 8LL * third, 8LL * third + 4};
    const auto index = [&](bool wrapped) {
      std::string bytes = std::string("MMIDIDX\0\0", 9) + raw<std::uint64_t>({1}) +
                          raw<std::uint8_t>({4}) + raw<std::uint64_t>({4, 3}) +
                          raw<std::int32_t>({third, third, 1, 1});
      for (const std::int64_t offset : offsets) {
        const auto cut = static_cast<std::uint32_t>(offset);
        bytes += raw<std::int64_t>({!wrapped    ? offset
                                    : with_sign ? static_cast<std::int32_t>(cut)
                                                : std::int64_t{cut}});
      }
      return bytes + raw<std::int64_t>({0, 1, 4});
    };
    write_bytes(folder / "a.idx", index(true));
    write_bytes(folder / "a.bin", "");
    File(folder / "a.bin", File::Mode::append).truncate(static_cast<std::uint64_t>(offsets[3] + 4));
    expect_error(ExitCode::bad_input, {"a.idx", "overflowed 32 bits", "trireme data rebuild-index"},
                 [&] { IndexedDataset data(folder / "a"); });
    EXPECT_EQ(IndexedDataset::rebuild_index(folder / "a"), with_sign ? 3 : 2);
    EXPECT_EQ(read_file(folder / "a.idx"), index(false));
    EXPECT_EQ(IndexedDataset(folder / "a").tokens(), 2LL * third + 2);
    EXPECT_EQ(IndexedDataset::rebuild_index(folder / "a.idx"), 0);
  }
}

TEST(IndexedDataset, OtherWrongOffsetsAreNotWrittenAgain) {
  const TempFolder folder;
  write_small(folder / "a");
  std::string bytes = read_file(folder / "a.idx");
  bytes[34 + 12 + 8] = 2;  // the second sequence starts at byte 2 instead of 6
  write_bytes(folder / "a.idx", bytes);
  expect_error(ExitCode::bad_input, {"a.idx", "sequence 1 begins at byte 2", "add up to 6"},
               [&] { IndexedDataset::rebuild_index(folder / "a"); });
  write_small(folder / "b");
  write_bytes(folder / "b.bin", "123456");
  expect_error(ExitCode::bad_input, {"b.bin", "do not belong together"},
               [&] { IndexedDataset::rebuild_index(folder / "b"); });
}

TEST(IndexedDataset, TokensOfOtherProgramsAreNamed) {
  using namespace std::string_literals;
  const TempFolder folder;
  const std::tuple<const char*, std::string, std::string> cases[] = {
      {"gpt2.bin", raw<std::int32_t>({20240520, 1, 40}), "a token file of llm.c"},
      {"llama.bin", raw<std::int32_t>({20240801, 7, 40}), "a token file of llm.c"},
      {"train.bin", raw<std::uint16_t>({0, 1, 2, 3}),
       "raw tokens of another program, such as nanoGPT"},
      {"letters.bin", raw<std::uint16_t>({'h', 'i'}), "raw tokens of another program"},
      {"part-0.npy", "\x93NUMPY\x01\0v\0{'descr': '<u2'"s, "a NumPy array"},
      {"model.bin", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
      {"corpus.jsonl", "{\"text\": \"a\"}\n", "is a single file"}};
  for (const auto& [name, bytes, what] : cases) {
    write_bytes(folder / name, bytes);
    expect_error(ExitCode::bad_input, {name, what}, [&] { IndexedDataset data(folder / name); });
  }
  expect_error(ExitCode::bad_input, {"gpt2.bin", "llm.c"},
               [&] { IndexedDataset data(folder / "gpt2"); });
}

TEST(IndexedDatasetWriter, AbandonedLeavesNothingAndKeepsTheOld) {
  const TempFolder folder;
  write_small(folder / "a");
  const std::string before = read_file(folder / "a.bin");
  {
    IndexedDatasetWriter writer(folder / "a", TokenType::u16);
    writer.add_document(std::vector<std::int32_t>{9});
  }
  EXPECT_EQ(read_file(folder / "a.bin"), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
}

TEST(IndexedDatasetWriter, UnwritablePlacesAreTheUsersFault) {
  expect_error(ExitCode::bad_input, {"/nowhere/a.bin"},
               [] { IndexedDatasetWriter writer("/nowhere/a", TokenType::u16); });
}

}  // namespace
}  // namespace trireme
