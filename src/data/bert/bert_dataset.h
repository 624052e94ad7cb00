// Samples for masked language models, built from sentences as in Megatron's BERT dataset.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "data/bert/bert_order.h"
#include "data/bert/bert_sample.h"
#include "data/dataset.h"
#include "data/indexed_dataset.h"
#include "data/split.h"

namespace trireme {

struct BertOptions {
  std::int64_t seq_length = 0;
  std::uint32_t seed = 0;
  BertVocabulary vocabulary;
  BertSampleOptions sample;
  double short_seq_prob = 0.1;
  std::filesystem::path cache_dir;  // for orders that take long to build; empty: none are kept
};

// Fills rows of a batch: tokens padded to seq_length, targets and weight 1 at masked positions (0
// elsewhere), segments, the unpadded length, and order label 1 if segments are swapped.
class BertDataset final : public Dataset {
 public:
  // `range` counts documents, whose sequences are sentences; at least `samples` samples, -1: one
  // epoch.
  BertDataset(std::shared_ptr<const IndexedDataset> data, Range range, std::int64_t samples,
              const BertOptions& options);

  std::int64_t size() const override { return static_cast<std::int64_t>(order_.size()); }
  std::int64_t seq_length() const override { return options_.seq_length; }
  void fill(std::int64_t index, const BatchRow& row) const override;
  // The sentences of the sample, before they are cut.
  std::vector<SamplePart> parts(std::int64_t index) const override;
  std::uint64_t order_key() const override { return order_key_; }

 private:
  std::shared_ptr<const IndexedDataset> data_;
  BertOptions options_;
  std::uint64_t order_key_ = 0;
  std::span<const BertSample> order_;
  std::shared_ptr<const void> storage_;  // what order_ points into
};

}  // namespace trireme
