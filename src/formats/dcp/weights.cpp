// Lists one entry per chunk, in the order of the tensors.
#include "formats/dcp/weights.h"

#include "base/counted.h"
#include "base/error.h"

namespace trireme {

DcpWeights::DcpWeights(std::shared_ptr<const DcpFolder> folder, Views views)
    : DcpWeights(folder, places(*folder), views) {}

DcpWeights::DcpWeights(std::shared_ptr<const DcpFolder> folder, std::vector<Place> places,
                       const Views& views)
    : WeightFile(folder->where(), entries(places, views)),
      folder_(std::move(folder)),
      views_(views),
      places_(std::move(places)) {
  for (std::size_t i = 0; i < places_.size(); ++i) first_.emplace(places_[i].tensor, i);
}

std::vector<DcpWeights::Place> DcpWeights::places(const DcpFolder& folder) {
  std::vector<Place> places;
  for (const DcpTensor& tensor : folder.metadata().tensors) {
    for (const DcpChunk& chunk : tensor.chunks) places.push_back({&tensor, &chunk});
  }
  return places;
}

std::vector<WeightEntry> DcpWeights::entries(const std::vector<Place>& places, const Views& views) {
  std::vector<WeightEntry> out;
  for (const auto& [tensor, chunk] : places) {
    const auto skipped = chunk->sizes.empty() ? 0 : views.skipped(*tensor);
    std::vector<std::int64_t> shape(chunk->sizes.begin() + static_cast<std::ptrdiff_t>(skipped),
                                    chunk->sizes.end());
    if (views.flattens(*tensor)) shape = {chunk->count()};
    out.push_back({tensor->name, tensor->type->name, tensor->type->ours, std::move(shape)});
  }
  return out;
}

void DcpWeights::require_whole(const DcpTensor& tensor) const {
  if (const std::string fault = dcp_tiling_fault(tensor); !fault.empty()) {
    fail_input("'{}': the tensor '{}' of shape {} is incomplete: {}", this->name(), tensor.name,
               shape_text(tensor.shape), fault);
  }
}

std::vector<std::int64_t> DcpWeights::shape_of(const DcpTensor& tensor, std::size_t skipped) const {
  std::vector<std::int64_t> shape(tensor.shape.begin() + static_cast<std::ptrdiff_t>(skipped),
                                  tensor.shape.end());
  if (!views_.flattens(tensor)) return shape;
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return {count};
}

// Views the tensor as a matrix whose columns are the last dimension, or as a vector.
TensorPart DcpWeights::part(const DcpTensor& tensor, std::size_t i, std::size_t skipped) const {
  const DcpChunk& chunk = tensor.chunks[i];
  const std::size_t rank = tensor.shape.size() + (views_.flattens(tensor) ? 1 : 0);
  TensorPart part{this, &tensors()[first_.at(&tensor) + i]};
  if (rank > skipped) part.row = chunk.offsets[skipped];
  bool is_one = rank > skipped && chunk.sizes[skipped] == 1;  // in the skipped dimensions
  for (std::size_t axis = skipped + 1; axis + 1 < rank; ++axis) {
    if (!is_one && chunk.sizes[axis] != tensor.shape[axis] && chunk.count() > 0) {
      fail_input(
          "'{}': the tensor '{}' of shape {} is sharded along dimension {} in shards that span "
          "several indices of an earlier dimension, so that their rows are not contiguous: that is "
          "not supported",
          this->name(), tensor.name, shape_text(tensor.shape), axis);
    }
    part.row = part.row * tensor.shape[axis] + chunk.offsets[axis];
    is_one = is_one && chunk.sizes[axis] == 1;
  }
  if (rank > skipped + 1 && !views_.flattens(tensor)) part.column = chunk.offsets[rank - 1];
  return part;
}

JoinedTensor DcpWeights::whole(const DcpTensor& tensor, const std::string& name) const {
  require_whole(tensor);
  JoinedTensor joined{name, shape_of(tensor, 0), {}};
  for (std::size_t i = 0; i < tensor.chunks.size(); ++i) {
    const TensorPart one = part(tensor, i, 0);
    if (tensor.chunks[i].count() > 0 || tensor.count() == 0) joined.parts.push_back(one);
  }
  if (joined.parts.empty()) {
    fail_input("'{}': the tensor '{}' has no shards", this->name(), tensor.name);
  }
  return joined;
}

std::vector<JoinedTensor> DcpWeights::layers(const DcpTensor& tensor,
                                             const std::vector<std::string>& names) const {
  require_whole(tensor);
  if (tensor.shape.empty() || tensor.shape[0] != std::ssize(names) || tensor.count() == 0) {
    fail_input(
        "'{}': the tensor '{}' of shape {} must have one entry for each of {} in its first "
        "dimension",
        this->name(), tensor.name, shape_text(tensor.shape), counted(names.size(), "layer"));
  }
  std::vector<JoinedTensor> joined;
  for (const std::string& name : names) joined.push_back({name, shape_of(tensor, 1), {}});
  for (std::size_t i = 0; i < tensor.chunks.size(); ++i) {
    const DcpChunk& chunk = tensor.chunks[i];
    if (chunk.count() == 0) continue;
    if (chunk.sizes[0] != 1) {
      fail_input(
          "'{}': a shard of the tensor '{}' contains {} layers; only shards of one layer are "
          "supported",
          this->name(), tensor.name, chunk.sizes[0]);
    }
    joined[static_cast<std::size_t>(chunk.offsets[0])].parts.push_back(part(tensor, i, 1));
  }
  return joined;
}

void DcpWeights::read(const WeightEntry& chunk, std::int64_t begin, std::int64_t end,
                      std::byte* dst) const {
  const Place& place = places_[position(chunk)];
  const auto file = folder_->open(*place.tensor, *place.chunk);
  file->read(file->pickle().tensor(file->pickle().root()), begin, end, dst);
}

}  // namespace trireme
