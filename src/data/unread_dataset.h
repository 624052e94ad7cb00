// Placeholder for a dataset on a rank whose stages read only the numbers of the samples.
#pragma once

#include <limits>

#include "data/dataset.h"

namespace trireme {

class UnreadDataset final : public Dataset {
 public:
  // `order_key` is that of the dataset that other ranks read.
  UnreadDataset(std::int64_t seq_length, std::uint64_t order_key)
      : seq_length_(seq_length), order_key_(order_key) {}

  std::int64_t size() const override { return std::numeric_limits<std::int64_t>::max(); }
  std::int64_t seq_length() const override { return seq_length_; }
  void fill(std::int64_t, const BatchRow&) const override {}
  std::vector<SamplePart> parts(std::int64_t) const override { return {}; }
  std::uint64_t order_key() const override { return order_key_; }

 private:
  std::int64_t seq_length_;
  std::uint64_t order_key_;
};

}  // namespace trireme
