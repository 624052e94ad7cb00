// Samples of seq_length + 1 consecutive tokens for left-to-right models, in Megatron's order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "data/bert/masks.h"
#include "data/dataset.h"
#include "data/gpt/fill_in_middle.h"
#include "data/gpt/gpt_order.h"
#include "data/indexed_dataset.h"
#include "data/split.h"

namespace trireme {

struct GptOptions {
  std::int64_t seq_length = 0;
  std::uint32_t seed = 0;
  std::int64_t vocab_size = 0;  // ids are checked against it
  MaskOptions masks;
  std::shared_ptr<const FillInMiddle> fill_in_middle;  // null: off
  std::filesystem::path cache_dir;  // for orders that take long to build; empty: none are kept
};

class GptDataset final : public Dataset {
 public:
  // The sequences `range` of `data`, repeated for as many epochs as give `samples` samples; -1: one
  // epoch. Throws bad_input where the range holds no token.
  GptDataset(std::shared_ptr<const IndexedDataset> data, Range range, std::int64_t samples,
             const GptOptions& options);

  std::int64_t size() const override { return order_.samples(); }
  std::int64_t seq_length() const override { return options_.seq_length; }
  void fill(std::int64_t index, const BatchRow& row) const override;
  std::vector<SamplePart> parts(std::int64_t index) const override;
  std::uint64_t order_key() const override { return order_key_; }

  std::int64_t epochs() const { return order_.epochs; }
  const IndexedDataset& data() const { return *data_; }

 private:
  std::shared_ptr<const IndexedDataset> data_;
  GptOptions options_;
  std::uint64_t order_key_ = 0;
  GptOrder order_;
};

}  // namespace trireme
