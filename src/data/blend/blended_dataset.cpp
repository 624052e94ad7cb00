// Construction of blends.
#include "data/blend/blended_dataset.h"

#include "base/error.h"
#include "base/hash.h"

namespace trireme {

BlendedDataset::BlendedDataset(std::vector<std::shared_ptr<const Dataset>> datasets,
                               BlendOrder order, std::uint64_t blend_key)
    : datasets_(std::move(datasets)), order_(std::move(order)) {
  TRIREME_CHECK(!datasets_.empty());
  std::vector<std::uint64_t> keys{blend_key};
  for (const auto& dataset : datasets_) keys.push_back(dataset->order_key());
  order_key_ = hash64(keys.data(), keys.size() * sizeof(keys[0]));
  for (std::int64_t i = 0; i < order_.size(); ++i) {
    TRIREME_CHECK(static_cast<std::size_t>(order_.datasets[i]) < datasets_.size() &&
                  order_.samples[i] < datasets_[order_.datasets[i]]->size());
  }
}

}  // namespace trireme
