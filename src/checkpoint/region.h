// Elements of a named global tensor that a memory block holds, and overlaps of such blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "backend/device.h"
#include "base/dtype.h"
#include "base/shape.h"

namespace trireme {

// A rectangle of a tensor and a range of it: elements [begin, end) of the rectangle flattened in
// row-major order, stored contiguously. Tensor parallelism makes rectangles (splits dimension 0 or
// 1); ZeRO makes ranges of the whole tensor or of such a rectangle.
struct Region {
  Shape offset;  // rectangle's first element; same rank as the tensor
  Shape shape;   // shape of the rectangle
  std::int64_t begin = 0;
  std::int64_t end = 0;

  static Region whole(const Shape& tensor);
  static Region rectangle(const Shape& offset, const Shape& shape);
  // Elements [begin, end) of the flattened tensor.
  static Region range(const Shape& tensor, std::int64_t begin, std::int64_t end);

  std::int64_t count() const { return end - begin; }
  bool is_full_rectangle() const { return begin == 0 && end == shape.count(); }
  bool same_rectangle(const Region& other) const {
    return offset == other.offset && shape == other.shape;
  }
  bool operator==(const Region& other) const = default;
  // "[0:128, 0:768]", or with a range "[0:128, 0:768](1000:2000)".
  std::string text() const;
};

// Why the region does not fit in a tensor of that shape, or "" if it does.
std::string region_fault(const Shape& tensor, const Region& region);

// `count` elements shared by two regions and contiguous in both. Positions count elements from the
// first stored one of each region.
struct Run {
  std::int64_t src = 0;
  std::int64_t dst = 0;
  std::int64_t count = 0;
};

// The intersection of `src` and `dst` as runs, ascending in both positions. Both must lie in
// `tensor`.
std::vector<Run> overlap(const Shape& tensor, const Region& src, const Region& dst);

// Why the regions do not cover every element of the tensor exactly once, or "" if they do. Ranges
// of one rectangle must together cover that rectangle.
std::string tiling_fault(const Shape& tensor, const std::vector<Region>& regions);

// Bytes stored outside of memory, addressed by offset. Thread-safe.
class SliceStore {
 public:
  virtual ~SliceStore() = default;
  virtual void read(std::int64_t begin, std::int64_t count,
                    const std::function<void(const std::byte* host)>& use) = 0;
  virtual void write(std::int64_t begin, std::int64_t count,
                     const std::function<void(std::byte* host)>& fill) = 0;
};

// A piece of a named tensor in memory, to save from (const bytes) or to load into. The caller
// owns the bytes, which are in device or host memory and hold region.count() elements of type
// dtype.
template <class Byte>
struct Slice {
  std::string name;  // independent of the layout, e.g. "layers.3.mlp.up.weight"
  DType dtype = DType::f32;
  Shape tensor;  // global shape, without vocabulary padding
  Region region;
  Byte* data = nullptr;
  Device* device = nullptr;  // device that owns the memory; null: host
  // Store that holds the data instead of memory, from byte store_begin on.
  std::shared_ptr<SliceStore> store = nullptr;
  std::int64_t store_begin = 0;

  std::int64_t bytes() const { return region.count() * size_of(dtype); }
  // Calls access(Byte* host) with `count` bytes from byte `begin` on, to read them or to overwrite
  // them completely. Thread-safe.
  template <class Access>
  void access(std::int64_t begin, std::int64_t count, const Access& access) const {
    if (store) {
      if constexpr (std::is_const_v<Byte>) {
        store->read(store_begin + begin, count, std::cref(access));
      } else {
        store->write(store_begin + begin, count, std::cref(access));
      }
    } else if (!device) {
      access(data + begin);
    } else if constexpr (std::is_const_v<Byte>) {
      device->read(data + begin, count, std::cref(access));
    } else {
      device->write(data + begin, count, std::cref(access));
    }
  }
};
using SourceSlice = Slice<const std::byte>;
using TargetSlice = Slice<std::byte>;

}  // namespace trireme
