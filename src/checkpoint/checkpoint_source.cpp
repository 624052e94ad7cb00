// Reads small tensors whole and large tensors in parts.
#include "checkpoint/checkpoint_source.h"

#include <cstring>

#include "base/error.h"

namespace trireme {
namespace {

// Tensors up to this size are read whole and cached until another tensor is requested:
// their parts are requested in sequence, and each may be much smaller than a checksum
// block.
constexpr std::int64_t max_kept_bytes = std::int64_t{256} << 20;

std::int64_t width(const StoredTensor& tensor) {
  return tensor.shape.rank() < 2 ? 1 : tensor.shape.back();
}

}  // namespace

DType CheckpointSource::check(const std::string& name, const Shape& shape) const {
  const StoredTensor* tensor = reader_.find(name);
  if (!tensor) fail_input("checkpoint '{}' has no tensor '{}'", reader_.folder().string(), name);
  if (!(tensor->shape == shape)) {
    fail_input("checkpoint '{}': tensor '{}' has the shape {}, but its configuration gives {}",
               reader_.folder().string(), name, tensor->shape.text(), shape.text());
  }
  return tensor->dtype;
}

void CheckpointSource::read(const std::string& name, const Rectangle& part, std::byte* dst) {
  const StoredTensor& tensor = *reader_.find(name);
  if (tensor.bytes() > max_kept_bytes) return read_part(tensor, part, dst);
  if (kept_ != name) {
    kept_.clear();
    memory_.resize(static_cast<std::size_t>(tensor.bytes()));
    read_region(tensor, Region::whole(tensor.shape), memory_.data());
    kept_ = name;
  }
  const std::int64_t element = size_of(tensor.dtype);
  for (std::int64_t i = 0; i < part.rows; ++i) {
    const std::int64_t from = (part.row + i) * width(tensor) + part.column;
    std::memcpy(dst + i * part.columns * element, memory_.data() + from * element,
                static_cast<std::size_t>(part.columns * element));
  }
}

void CheckpointSource::read_part(const StoredTensor& tensor, const Rectangle& part,
                                 std::byte* dst) {
  if (tensor.shape.rank() == 2) {
    return read_region(tensor,
                       Region::rectangle({part.row, part.column}, {part.rows, part.columns}), dst);
  }
  TRIREME_CHECK(part.columns == width(tensor));
  read_region(
      tensor,
      Region::range(tensor.shape, part.row * part.columns, (part.row + part.rows) * part.columns),
      dst);
}

void CheckpointSource::read_region(const StoredTensor& tensor, const Region& region,
                                   std::byte* dst) {
  if (options_.stopped.stop_requested()) fail("the process was told to stop");
  const TargetSlice target{tensor.name, tensor.dtype, tensor.shape, region, dst};
  reader_.read({&target, 1}, {.pool = options_.pool, .progress = options_.progress});
}

}  // namespace trireme
