// One entry for each chunk, in the order of the tensors.
#include "interop/dcp_weights.h"

#include "base/error.h"

namespace trireme {

DcpWeights::DcpWeights(std::shared_ptr<const DcpFolder> folder)
    : DcpWeights(folder, places(*folder)) {}

DcpWeights::DcpWeights(std::shared_ptr<const DcpFolder> folder, std::vector<Place> places)
    : WeightFile(folder->where(), entries(places)),
      folder_(std::move(folder)),
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

std::vector<WeightEntry> DcpWeights::entries(const std::vector<Place>& places) {
  std::vector<WeightEntry> out;
  for (const auto& [tensor, chunk] : places)
    out.push_back({tensor->name, tensor->type->name, tensor->type->ours, chunk->sizes});
  return out;
}

JoinedTensor DcpWeights::whole(const DcpTensor& tensor, const std::string& name) const {
  if (const std::string fault = dcp_tiling_fault(tensor); !fault.empty()) {
    fail_input("'{}': the tensor '{}' of shape {} is not whole: {}", this->name(), tensor.name,
               shape_text(tensor.shape), fault);
  }
  JoinedTensor joined{name, tensor.shape, {}};
  const std::size_t rank = tensor.shape.size();
  for (std::size_t i = 0; i < tensor.chunks.size(); ++i) {
    const DcpChunk& chunk = tensor.chunks[i];
    TensorPart part{this, &tensors()[first_.at(&tensor) + i]};
    // Read as a matrix, whose columns are the last dimension.
    if (rank > 0) part.row = chunk.offsets[0];
    for (std::size_t axis = 1; axis + 1 < rank; ++axis) {
      if (chunk.sizes[axis] != tensor.shape[axis] && chunk.count() > 0) {
        fail_input(
            "'{}': the tensor '{}' of shape {} is cut along its dimension {}, and only cuts "
            "of the first and the last one are read",
            this->name(), tensor.name, shape_text(tensor.shape), axis);
      }
      part.row *= tensor.shape[axis];
    }
    if (rank > 1) part.column = chunk.offsets[rank - 1];
    if (chunk.count() > 0 || tensor.count() == 0) joined.parts.push_back(part);
  }
  if (joined.parts.empty()) {
    fail_input("'{}': the tensor '{}' has no parts", this->name(), tensor.name);
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
