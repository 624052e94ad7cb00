// Tests of fill-in-the-middle: no text is lost, and randomness depends on the sample alone.
#include "data/gpt/fill_in_middle.h"

#include <gmock/gmock.h>

#include "data/byte_tokenizer.h"
#include "data/dataset_builder.h"
#include "data/indexed_writer.h"
#include "data/temp_folder.h"

namespace trireme {
namespace {

using testing_data::ByteTokenizer;
using testing_data::expect_error;
using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kEod = 256, kPre = 257, kMid = 258, kSuf = 259;

FillInMiddle make(double rate, double spm_rate) {
  return {{rate, spm_rate, kPre, kMid, kSuf}, std::make_shared<ByteTokenizer>()};
}

// Encodes "document$document$...", with room for the sentinel tokens.
Ids ids_of(std::string_view text, std::size_t room) {
  Ids ids;
  for (const char c : text) ids.push_back(c == '$' ? kEod : static_cast<unsigned char>(c));
  ids.resize(ids.size() + room, 'x');
  return ids;
}

std::string text_of(const Ids& ids) {
  std::string text;
  for (const std::int32_t id : ids) {
    text += id == kEod   ? '$'
            : id == kPre ? '<'
            : id == kSuf ? '|'
            : id == kMid ? '>'
                         : static_cast<char>(id);
  }
  return text;
}

// Undoes the transformation of one document; sets whether the suffix came first.
std::string restored(const std::string& text, bool& suffix_first) {
  const std::size_t suffix = text.find('|'), middle = text.find('>');
  suffix_first = suffix == 1;
  const std::string after = text.substr(suffix + 1, middle - suffix - 1);
  return suffix_first ? text.substr(middle + 1) + after
                      : text.substr(1, suffix - 1) + text.substr(middle + 1) + after;
}

TEST(FillInMiddle, OffChangesNothing) {
  Ids ids = ids_of("one$two$three", 0);
  const Ids before = ids;
  EXPECT_EQ(make(0, 0.5).apply(1, 2, ids), static_cast<std::int64_t>(before.size()));
  EXPECT_EQ(ids, before);
}

TEST(FillInMiddle, EveryDocumentCanBeRestored) {
  const std::string text = "The quick brown f\xc3\xb6x jumps";
  int first = 0;
  for (std::int64_t sample = 0; sample < 400; ++sample) {
    Ids ids = ids_of(text + "$", 3);
    make(1, 0.25).apply(7, sample, ids);
    const std::string rewritten = text_of(ids).substr(0, text.size() + 3);
    EXPECT_EQ(rewritten[0], '<');
    EXPECT_EQ(text_of(ids)[text.size() + 3], '$');
    bool suffix_first = false;
    EXPECT_EQ(restored(rewritten, suffix_first), text) << rewritten;
    first += suffix_first;
    // Multi-byte characters are never split.
    EXPECT_EQ(rewritten.find('\xc3') + 1, rewritten.find('\xb6'));
  }
  // With an empty prefix, both forms look alike: at 2 of 26 positions.
  EXPECT_NEAR(first, 400 * (0.25 + 0.75 * 0.08), 50);
}

TEST(FillInMiddle, RateIsPerDocumentAndLengthStays) {
  int rewritten = 0;
  const FillInMiddle half = make(0.5, 0.5);
  for (std::int64_t sample = 0; sample < 500; ++sample) {
    Ids ids = ids_of("abcdefgh$ijklmnop$qrstuvwx", 0);
    const std::size_t length = ids.size();
    EXPECT_EQ(half.apply(7, sample, ids), static_cast<std::int64_t>(length));
    EXPECT_EQ(ids.size(), length);
    rewritten += text_of(ids).starts_with("<");
    Ids again = ids_of("abcdefgh$ijklmnop$qrstuvwx", 0);
    half.apply(7, sample, again);
    EXPECT_EQ(again, ids);
  }
  EXPECT_NEAR(rewritten, 250, 45);
}

TEST(FillInMiddle, LostTokensAreFilledUpAndNotLearned) {
  const testing_data::TempFolder folder;
  IndexedDatasetWriter writer(folder / "a", TokenType::u16);
  // Decoding drops these IDs, so the sample gets shorter.
  writer.add_document(Ids(9, kPre));
  writer.finish();
  const auto data = std::make_shared<IndexedDataset>(folder / "a");
  GptOptions options{.seq_length = 8, .seed = 1, .vocab_size = 260};
  options.fill_in_middle = std::make_shared<FillInMiddle>(make(1, 0));
  const GptDataset dataset(data, {0, 1}, 1, options);
  Batch batch(1, 8);
  dataset.fill(0, batch.row(0));
  EXPECT_EQ(text_of(batch.tokens), "<|>$$$$$");
  EXPECT_THAT(batch.loss_weights, ::testing::ElementsAre(1, 1, 0, 0, 0, 0, 0, 0));
}

TEST(FillInMiddle, KeysNameItsTokens) {
  const testing_data::TempFolder folder;
  testing_data::write_bytes(
      folder / "tokenizer.json",
      R"({"added_tokens":[{"id":2,"content":"<|endoftext|>"},)"
      R"({"id":3,"content":"<|fim_prefix|>"},{"id":4,"content":"<MID>"},)"
      R"({"id":5,"content":"<|fim_suffix|>"}],)"
      R"("pre_tokenizer":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"},)"
      R"("model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}})");
  IndexedDatasetWriter writer(folder / "a", TokenType::u16);
  writer.add_document(Ids{0, 1, 0, 0, 1, 1, 2});
  writer.finish();
  Config config;
  config.model.seq_length = 9;
  config.data.path = {folder / "a"};
  config.data.split = "1,0,0";
  config.data.fim_rate = 1;
  expect_error(ExitCode::bad_input, {"data.fim_rate requires data.tokenizer"},
               [&] { gpt_options(config, 6, 2); });
  config.data.tokenizer = "hf";
  config.data.tokenizer_model = folder / "tokenizer.json";
  expect_error(ExitCode::bad_input, {"data.fim_middle_token", "<|fim_middle|>", "no such token"},
               [&] { gpt_options(config, 6, 2); });
  config.data.fim_middle_token = "<MID>";
  const auto dataset =
      DatasetBuilder(config.data, gpt_options(config, 6, 2)).build(Split::train, 1);
  Batch batch(1, 9);
  dataset->fill(0, batch.row(0));
  for (const std::int32_t token : {3, 4, 5}) {
    EXPECT_THAT(batch.tokens, ::testing::Contains(token));
  }
  config.data.fim_rate = 0;
  EXPECT_EQ(gpt_options(config, 6, 2).fill_in_middle, nullptr);
}

TEST(FillInMiddle, RefusesWrongOptions) {
  const auto tokenizer = std::make_shared<ByteTokenizer>();
  expect_error(ExitCode::bad_input, {"1.5"}, [&] { make(1.5, 0.5); });
  expect_error(ExitCode::bad_input, {"no token -1"}, [&] {
    FillInMiddle({0.5, 0.5, kPre, -1, kSuf}, tokenizer);
  });
  expect_error(ExitCode::bad_input, {"no token 260"}, [&] {
    FillInMiddle({0.5, 0.5, kPre, 260, kSuf}, tokenizer);
  });
}

}  // namespace
}  // namespace trireme
