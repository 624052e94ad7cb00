// Tests of samples, masks, splits and blends of GPT datasets.
#include "data/gpt/gpt_dataset.h"

#include <gmock/gmock.h>

#include <numeric>

#include "data/dataset_builder.h"
#include "data/indexed_writer.h"
#include "data/temp_folder.h"

namespace trireme {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing_data::expect_error;
using testing_data::TempFolder;

constexpr std::int32_t kEod = 0;

// Writes documents in which token t of document d is 1000 * d + t + 1; each ends with kEod.
void write_documents(const std::string& prefix, const std::vector<int>& lengths) {
  IndexedDatasetWriter writer(prefix, TokenType::i32);
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(lengths[d]));
    std::iota(tokens.begin(), tokens.end(), static_cast<std::int32_t>(1000 * d + 1));
    if (!tokens.empty()) tokens.back() = kEod;
    writer.add_document(tokens);
  }
  writer.finish();
}

GptOptions options_of(std::int64_t seq_length) {
  return {.seq_length = seq_length, .seed = 1234, .vocab_size = 1'000'000, .masks = {kEod}};
}

Batch sample(const Dataset& dataset, std::int64_t index) {
  Batch batch(1, dataset.seq_length());
  dataset.fill(index, batch.row(0));
  return batch;
}

TEST(GptDataset, SamplesAreTheShuffledDocumentsEndToEnd) {
  const TempFolder folder;
  write_documents(folder / "a", {5, 3, 8, 1, 7, 2, 30});
  const auto data = std::make_shared<IndexedDataset>(folder / "a");
  const std::int64_t length = 4;
  const GptDataset dataset(data, {0, 7}, 30, options_of(length));
  // Builds the token stream by its definition.
  const GptOrder order = build_gpt_order({{0, 7}, length, 30, 1234}, data->lengths(0, 7));
  std::vector<std::int32_t> stream;
  for (const std::int32_t sequence : order.sequences) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(data->length(sequence)));
    data->read(sequence, 0, data->length(sequence), tokens.data());
    stream.insert(stream.end(), tokens.begin(), tokens.end());
  }
  ASSERT_GE(dataset.size(), 30);
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const auto from = stream.begin() + order.shuffle[i] * length;
    const Batch batch = sample(dataset, i);
    EXPECT_EQ(batch.tokens, std::vector<std::int32_t>(from, from + length));
    EXPECT_EQ(batch.targets, std::vector<std::int32_t>(from + 1, from + 1 + length));
    EXPECT_THAT(batch.loss_weights, Each(1.0f));
    EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(batch.first_visible, Each(0));
    std::int64_t count = 0;
    for (const SamplePart& part : dataset.parts(i)) count += part.last - part.first + 1;
    EXPECT_EQ(count, length + 1);
  }
}

TEST(GptDataset, OrderOnDiskGivesTheSameSamplesAndDamageIsRepaired) {
  const TempFolder folder;
  write_documents(folder / "a", {1000, 900, 800});
  const auto data = std::make_shared<IndexedDataset>(folder / "a");
  GptOptions options = options_of(2);
  const GptDataset fresh(data, {0, 3}, 100'000, options);
  options.cache_dir = folder / "cache";
  const GptDataset stored(data, {0, 3}, 100'000, options);
  const fs::path file = *fs::directory_iterator(folder / "cache");
  const auto written = fs::last_write_time(file);
  const GptDataset loaded(data, {0, 3}, 100'000, options);
  EXPECT_EQ(fs::last_write_time(file), written);
  const std::string whole = read_file(file);
  std::string damaged = whole;
  damaged[whole.size() / 2] ^= 1;
  testing_data::write_bytes(file.string(), damaged);
  const GptDataset repaired(data, {0, 3}, 100'000, options);
  EXPECT_EQ(read_file(file), whole);
  for (const GptDataset* other : {&stored, &loaded, &repaired}) {
    EXPECT_EQ(other->size(), fresh.size());
    EXPECT_EQ(other->order_key(), fresh.order_key());
    for (std::int64_t i = 0; i < fresh.size(); i += 997) {
      EXPECT_EQ(sample(*other, i).tokens, sample(fresh, i).tokens);
    }
  }
}

TEST(GptDataset, TokensOutsideTheVocabularyAreNamed) {
  const TempFolder folder;
  write_documents(folder / "a", {5, 3});
  const auto data = std::make_shared<IndexedDataset>(folder / "a");
  GptOptions options = options_of(3);
  options.vocab_size = 1002;
  const GptDataset dataset(data, {0, 2}, 10, options);
  expect_error(ExitCode::bad_input, {"a.bin", "document 1 is 1002", "1002 ids"}, [&] {
    for (std::int64_t i = 0; i < dataset.size(); ++i) sample(dataset, i);
  });
}

TEST(Masks, FollowMegatron) {
  std::vector<std::int32_t> tokens{5, 6, kEod, 7, kEod, kEod, 8, 9};
  Batch batch(1, 8);
  batch.tokens = tokens;
  fill_masks({kEod, true, false, false}, 8, batch.row(0));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 0, 1, 0, 0, 1));
  EXPECT_THAT(batch.first_visible, Each(0));
  EXPECT_THAT(batch.loss_weights, Each(1.0f));
  fill_masks({kEod, false, true, false}, 8, batch.row(0));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(batch.first_visible, ElementsAre(0, 0, 0, 3, 3, 5, 6, 6));
  fill_masks({kEod, false, false, true}, 8, batch.row(0));
  EXPECT_THAT(batch.loss_weights, ElementsAre(1, 1, 0, 1, 0, 0, 1, 1));
  EXPECT_THAT(batch.first_visible, Each(0));
}

class Builder : public ::testing::Test {
 protected:
  void SetUp() override {
    write_documents(folder_ / "a", std::vector<int>(20, 10));
    write_documents(folder_ / "b", std::vector<int>(20, 30));
    write_documents(folder_ / "tiny", {2});
  }
  std::shared_ptr<const Dataset> build(const DataConfig& config, Split split,
                                       std::int64_t samples) {
    return DatasetBuilder(config, options_of(8)).build(split, samples);
  }
  DataConfig config_of(std::vector<std::string> path, const std::string& split = "8,1,1") {
    for (std::string& word : path) {
      if (word.find_first_not_of("0123456789.") != word.npos) word = folder_ / word;
    }
    DataConfig config;
    config.path = std::move(path);
    config.split = split;
    return config;
  }
  TempFolder folder_;
};

TEST_F(Builder, SplitsDoNotOverlap) {
  const DataConfig config = config_of({"a"});
  const std::pair<Split, Range> splits[] = {
      {Split::train, {0, 16}}, {Split::valid, {16, 18}}, {Split::test, {18, 20}}};
  for (const auto& [split, range] : splits) {
    const auto dataset = build(config, split, 50);
    for (std::int64_t i = 0; i < dataset->size(); ++i) {
      for (const SamplePart& part : dataset->parts(i)) {
        EXPECT_GE(part.sequence, range.begin);
        EXPECT_LT(part.sequence, range.end);
      }
    }
  }
}

TEST_F(Builder, WeightedBlendTakesItsShares) {
  const auto dataset = build(config_of({"1", "a", "3", "b"}), Split::train, 100);
  EXPECT_EQ(dataset->size(), 100);
  int from_b = 0;
  for (std::int64_t i = 0; i < 100; ++i) from_b += dataset->parts(i)[0].prefix->ends_with("b");
  EXPECT_EQ(from_b, 75);
}

TEST_F(Builder, BlendBySizeTakesOneEpoch) {
  // 160 and 480 tokens in the train split give 19 and 59 samples.
  EXPECT_EQ(build(config_of({"a", "b"}), Split::train, 78)->size(), 78);
  expect_error(ExitCode::bad_input, {"79 samples", "has only 78", "weights"}, [&] {
    build(config_of({"a", "b"}), Split::train, 79);
  });
  expect_error(ExitCode::bad_input, {"tiny", "too few tokens"}, [&] {
    build(config_of({"a", "tiny"}, "1"), Split::train, 5);
  });
}

TEST_F(Builder, PathsBySplit) {
  DataConfig config;
  config.train_path = {folder_ / "a"};
  config.valid_path = {"1", folder_ / "b"};
  EXPECT_TRUE(build(config, Split::train, 5)->parts(0)[0].prefix->ends_with("a"));
  EXPECT_TRUE(build(config, Split::valid, 5)->parts(0)[0].prefix->ends_with("b"));
  EXPECT_EQ(build(config, Split::test, 5), nullptr);
  config.path = {folder_ / "a"};
  expect_error(ExitCode::bad_input, {"mutually exclusive"},
               [&] { build(config, Split::train, 5); });
  expect_error(ExitCode::bad_input, {"data.path"}, [&] { build({}, Split::train, 5); });
}

TEST_F(Builder, SplitWithoutDocumentsSaysSo) {
  EXPECT_EQ(build(config_of({"a"}, "1,0,0"), Split::valid, 5), nullptr);
  expect_error(ExitCode::bad_input, {"valid split", "split of", "999,1,0", "20 documents"},
               [&] { build(config_of({"a"}, "999,1,0"), Split::valid, 5); });
}

TEST_F(Builder, ForeignTokensAreFoundBeforeTraining) {
  GptOptions options = options_of(8);
  options.vocab_size = 19'005;
  expect_error(ExitCode::bad_input, {"document 19 is 19005"},
               [&] { DatasetBuilder(config_of({"a"}), options).build(Split::train, 1); });
}

TEST_F(Builder, MasksNeedAnEndOfDocument) {
  GptOptions options = options_of(8);
  options.masks = {.eod_id = -1, .eod_mask_loss = true};
  expect_error(ExitCode::bad_input, {"end-of-document"},
               [&] { DatasetBuilder(config_of({"a"}), options); });
}

TEST(SampleCounts, AreMegatrons) {
  Config config;
  TrainConfig& train = config.train;
  train.global_batch_size = 8;
  train.eval_interval = 100;
  train.eval_iters = 10;
  const SampleCounts counts = sample_counts(config, 250, 1);
  EXPECT_EQ(counts.train, 2000);
  EXPECT_EQ(counts.valid, 3 * 10 * 8);
  EXPECT_EQ(counts.test, 80);
  train.samples = 1999;
  train.eval_interval = 0;
  EXPECT_EQ(sample_counts(config, 250, 1).train, 1999);
  EXPECT_EQ(sample_counts(config, 250, 1).valid, 0);
}

}  // namespace
}  // namespace trireme
