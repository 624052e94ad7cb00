// A dataset that draws samples from several others by weight.
#pragma once

#include <memory>
#include <vector>

#include "data/blend/blend.h"
#include "data/dataset.h"

namespace trireme {

class BlendedDataset final : public Dataset {
 public:
  // `order` must ask for no more samples than the datasets have.
  BlendedDataset(std::vector<std::shared_ptr<const Dataset>> datasets, BlendOrder order,
                 std::uint64_t blend_key);

  std::int64_t size() const override { return order_.size(); }
  std::int64_t seq_length() const override { return datasets_.front()->seq_length(); }
  void fill(std::int64_t index, const BatchRow& row) const override {
    datasets_[order_.datasets[index]]->fill(order_.samples[index], row);
  }
  std::vector<SamplePart> parts(std::int64_t index) const override {
    return datasets_[order_.datasets[index]]->parts(order_.samples[index]);
  }
  std::uint64_t order_key() const override { return order_key_; }

 private:
  std::vector<std::shared_ptr<const Dataset>> datasets_;
  BlendOrder order_;
  std::uint64_t order_key_;
};

}  // namespace trireme
