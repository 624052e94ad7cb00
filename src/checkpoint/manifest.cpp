// Manifests: lookup, merging the parts of several ranks, and the check for completeness.
#include "checkpoint/manifest.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {

const StoredTensor* Manifest::find(std::string_view name) const {
  const auto it = std::ranges::lower_bound(tensors, name, {}, &StoredTensor::name);
  return it != tensors.end() && it->name == name ? &*it : nullptr;
}

Manifest merge(const std::vector<Manifest>& parts) {
  TRIREME_CHECK(!parts.empty());
  Manifest out;
  out.block_bytes = parts.front().block_bytes;
  std::map<std::string_view, StoredTensor> tensors;
  for (const Manifest& part : parts) {
    TRIREME_CHECK(part.block_bytes == out.block_bytes);
    const std::size_t first_shard = out.shards.size();
    out.shards.insert(out.shards.end(), part.shards.begin(), part.shards.end());
    for (const StoredTensor& tensor : part.tensors) {
      const auto [it, is_new] =
          tensors.try_emplace(tensor.name, StoredTensor{tensor.name, tensor.dtype, tensor.shape});
      StoredTensor& whole = it->second;
      if (whole.dtype != tensor.dtype || !(whole.shape == tensor.shape)) {
        fail("ranks disagree about tensor '{}': {} {} and {} {}", tensor.name, name_of(whole.dtype),
             whole.shape.text(), name_of(tensor.dtype), tensor.shape.text());
      }
      for (const StoredSlice& slice : tensor.slices) {
        whole.slices.push_back(slice);
        whole.slices.back().shard += first_shard;
      }
    }
  }
  for (auto& [name, tensor] : tensors) out.tensors.push_back(std::move(tensor));
  return out;
}

void check_complete(const Manifest& manifest, const std::string& name) {
  std::vector<Region> regions;
  for (const StoredTensor& tensor : manifest.tensors) {
    regions.clear();
    for (const StoredSlice& slice : tensor.slices) regions.push_back(slice.region);
    const std::string fault = tiling_fault(tensor.shape, regions);
    if (!fault.empty()) {
      fail_input("'{}' is not sound: tensor '{}' {} is not stored exactly once: {}", name,
                 tensor.name, tensor.shape.text(), fault);
    }
  }
}

}  // namespace trireme
