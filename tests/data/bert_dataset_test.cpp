// Tests of BERT samples against golden files and by their statistics.
#include "data/bert/bert_dataset.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <set>

#include "data/dataset_builder.h"
#include "data/indexed_writer.h"
#include "data/temp_folder.h"

namespace trireme {
namespace {

using nlohmann::json;
using testing_data::expect_error;
using testing_data::TempFolder;
using Ids = std::vector<std::int32_t>;

BertVocabulary small_vocabulary() {
  BertVocabulary vocabulary{.cls = 2, .sep = 3, .mask = 4, .pad = 0, .continues = {}};
  for (int id = 0; id < 60; ++id) vocabulary.continues.push_back(id >= 40);
  return vocabulary;
}

// Writes the corpus of data/make_bert_golden.py.
void write_corpus(const std::string& prefix, int documents) {
  IndexedDatasetWriter writer(prefix, TokenType::u16);
  for (int d = 0; d < documents; ++d) {
    Ids tokens, lengths;
    for (int s = 0; s < d * 7 % 11; ++s) {
      lengths.push_back((d * 31 + s * 17) % 23 + 1);
      for (int t = 0; t < lengths.back(); ++t)
        tokens.push_back(5 + (d * 131 + s * 37 + t * 11) % 55);
    }
    writer.add_document(tokens, lengths);
  }
  writer.finish();
}

template <class T>
std::uint32_t crc(const std::vector<T>& values) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(values.data()), values.size() * sizeof(T)));
}

Batch sample(const Dataset& dataset, std::int64_t index) {
  Batch batch(1, dataset.seq_length());
  dataset.fill(index, batch.row(0));
  return batch;
}

// Returns masked positions and their labels, as stored in the row of a batch.
std::pair<Ids, Ids> masks_of(const Batch& batch) {
  std::pair<Ids, Ids> masks;
  for (std::int32_t t = 0; t < batch.seq_length; ++t) {
    if (batch.loss_weights[t] == 0) continue;
    masks.first.push_back(t);
    masks.second.push_back(batch.targets[t]);
  }
  return masks;
}

BertOptions options_of(const json& test) {
  BertOptions options;
  options.seq_length = test["seq_length"];
  options.seed = test["seed"];
  options.vocabulary = small_vocabulary();
  options.sample = {test["mask_prob"], test["order_head"]};
  options.short_seq_prob = test["short_seq_prob"];
  return options;
}

void expect_order(const IndexedDataset& data, const json& test) {
  const BertOptions options = options_of(test);
  const std::vector<BertSample> order =
      build_bert_order({.documents = {0, data.documents()},
                        .samples = test["samples"],
                        .max_tokens = static_cast<std::int32_t>(options.seq_length - 3),
                        .min_sentences = options.sample.order_head ? 2 : 1,
                        .short_seq_prob = options.short_seq_prob,
                        .seed = options.seed},
                       data);
  std::vector<std::int64_t> flat;
  for (const BertSample& s : order) flat.insert(flat.end(), {s.first, s.count, s.target});
  ASSERT_EQ(order.size(), test["count"].get<std::size_t>());
  for (std::size_t i = 0; i < test["head"].size() * 3; ++i) {
    ASSERT_EQ(flat[i], test["head"][i / 3][i % 3].get<std::int64_t>());
  }
  EXPECT_EQ(crc(flat), test["order_crc"].get<std::uint32_t>());
}

TEST(BertDataset, EqualsGoldenSamples) {
  for (const json& test : json::parse(read_file(TRIREME_TEST_DATA "/bert_golden.json"))) {
    SCOPED_TRACE(test["documents"].dump() + " documents, seed " + test["seed"].dump());
    const TempFolder folder;
    write_corpus(folder / "a", test["documents"]);
    const auto data = std::make_shared<IndexedDataset>(folder / "a");
    expect_order(*data, test);
    const BertDataset dataset(data, {0, data->documents()}, test["samples"], options_of(test));
    Ids everything, swapped;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      const Batch batch = sample(dataset, i);
      const auto length = static_cast<std::size_t>(batch.lengths[0]);
      const Ids tokens(batch.tokens.begin(), batch.tokens.begin() + batch.lengths[0]);
      const Ids segments(batch.segments.begin(), batch.segments.begin() + batch.lengths[0]);
      const auto [positions, labels] = masks_of(batch);
      if (static_cast<std::size_t>(i) < test["first"].size()) {
        const json& golden = test["first"][static_cast<std::size_t>(i)];
        ASSERT_EQ(tokens, golden["tokens"].get<Ids>());
        ASSERT_EQ(segments, golden["segments"].get<Ids>());
        ASSERT_EQ(positions, golden["positions"].get<Ids>());
        ASSERT_EQ(labels, golden["labels"].get<Ids>());
        ASSERT_EQ(batch.order_labels[0], golden["swapped"].get<bool>());
      }
      for (std::size_t t = length; t < batch.tokens.size(); ++t) {
        ASSERT_EQ(batch.tokens[t], 0);
        ASSERT_EQ(batch.loss_weights[t], 0.0f);
      }
      for (const Ids* part : {&tokens, &segments, &positions, &labels}) {
        everything.insert(everything.end(), part->begin(), part->end());
      }
      swapped.push_back(batch.order_labels[0]);
    }
    everything.insert(everything.end(), swapped.begin(), swapped.end());
    EXPECT_EQ(crc(everything), test["all_crc"].get<std::uint32_t>());
  }
}

TEST(BertDataset, MaskingHasItsStatistics) {
  const TempFolder folder;
  write_corpus(folder / "a", 300);
  const auto data = std::make_shared<IndexedDataset>(folder / "a");
  BertOptions options{.seq_length = 128, .seed = 5, .vocabulary = small_vocabulary()};
  const BertDataset dataset(data, {0, 300}, 4000, options);
  double tokens = 0, masked = 0, as_mask = 0, kept = 0, swapped = 0;
  for (std::int64_t i = 0; i < 4000; ++i) {
    const Batch batch = sample(dataset, i);
    const auto [positions, labels] = masks_of(batch);
    tokens += batch.lengths[0];
    masked += static_cast<double>(positions.size());
    swapped += batch.order_labels[0];
    const std::set<std::int32_t> chosen(positions.begin(), positions.end());
    for (std::size_t m = 0; m < positions.size(); ++m) {
      const std::int32_t p = positions[m];
      as_mask += batch.tokens[p] == 4;
      kept += batch.tokens[p] == labels[m];
      // Whole-word masking: a continuation piece is masked together with the piece before it.
      if (labels[m] >= 40 && p > 1 && batch.tokens[p - 1] != 3) {
        EXPECT_TRUE(chosen.contains(p - 1)) << "sample " << i << " position " << p;
      }
    }
  }
  EXPECT_NEAR(masked / tokens, 0.15, 0.015);
  EXPECT_NEAR(as_mask / masked, 0.8, 0.02);
  EXPECT_NEAR(kept / masked, 0.1, 0.02);
  EXPECT_NEAR(swapped / 4000, 0.5, 0.03);
}

TEST(BertDataset, OrderOnDiskGivesTheSameSamples) {
  const TempFolder folder;
  write_corpus(folder / "a", 300);
  const auto data = std::make_shared<IndexedDataset>(folder / "a");
  BertOptions options{.seq_length = 32, .seed = 5, .vocabulary = small_vocabulary()};
  const BertDataset fresh(data, {0, 300}, 70'000, options);
  options.cache_dir = folder / "cache";
  const BertDataset stored(data, {0, 300}, 70'000, options);
  const BertDataset loaded(data, {0, 300}, 70'000, options);
  EXPECT_FALSE(fs::is_empty(folder / "cache"));
  EXPECT_EQ(loaded.order_key(), fresh.order_key());
  for (const BertDataset* other : {&stored, &loaded}) {
    ASSERT_EQ(other->size(), fresh.size());
    for (std::int64_t i = 0; i < fresh.size(); i += 4999) {
      EXPECT_EQ(sample(*other, i).tokens, sample(fresh, i).tokens);
    }
  }
}

TEST(BertDataset, DataWithoutSentencesSaysSo) {
  const TempFolder folder;
  IndexedDatasetWriter writer(folder / "a", TokenType::u16);
  writer.add_document(Ids{7, 8, 9});
  writer.add_document(Ids(1000, 7), Ids{600, 400});
  writer.finish();
  DataConfig config;
  config.path = {folder / "a"};
  config.split = "1";
  BertOptions options{.seq_length = 32, .seed = 5, .vocabulary = small_vocabulary()};
  expect_error(ExitCode::bad_input, {"/a'", "2 documents", "--split-sentences"},
               [&] { DatasetBuilder(config, options).build(Split::train, 10); });
  options.seq_length = 4;
  expect_error(ExitCode::bad_input, {"at least 5"},
               [&] { DatasetBuilder(config, options).build(Split::train, 10); });
  // Without the sentence order head, single sentences suffice.
  options.seq_length = 32;
  options.sample.order_head = false;
  EXPECT_GE(DatasetBuilder(config, options).build(Split::train, 10)->size(), 10);
}

}  // namespace
}  // namespace trireme
