// Which elements of a named global tensor a piece of memory holds, and how two such pieces overlap.
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
// row-major order, stored without gaps. Tensor parallelism gives rectangles (a cut of dimension 0
// or 1); ZeRO gives ranges, of the whole tensor or of such a rectangle.
struct Region {
  Shape offset;  // of the rectangle's first element; same rank as the tensor
  Shape shape;   // of the rectangle
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

// Why the region does not lie in a tensor of that shape, or "" if it does.
std::string region_fault(const Shape& tensor, const Region& region);

// `count` elements that two regions share and that lie together in both. Positions count elements
// from the first stored one of each region.
struct Run {
  std::int64_t src = 0;
  std::int64_t dst = 0;
  std::int64_t count = 0;
};

// The part of `src` that `dst` can take, as runs that rise in both positions. Both must lie in
// `tensor`.
std::vector<Run> overlap(const Shape& tensor, const Region& src, const Region& dst);

// Why the regions do not hold every element of the tensor exactly once, or "" if they do. Ranges of
// one rectangle must together fill that rectangle.
std::string tiling_fault(const Shape& tensor, const std::vector<Region>& regions);

// Bytes that are not in memory, by their place: thread-safe.
class SliceStore {
 public:
  virtual ~SliceStore() = default;
  virtual void read(std::int64_t begin, std::int64_t count,
                    const std::function<void(const std::byte* host)>& use) = 0;
  virtual void write(std::int64_t begin, std::int64_t count,
                     const std::function<void(std::byte* host)>& fill) = 0;
};

// A piece of a named tensor in memory: to save from (const bytes) or to load into. The bytes belong
// to the caller, lie in memory of a device or of the host, and hold region.count() elements of type
// dtype.
template <class Byte>
struct Slice {
  std::string name;  // independent of the layout, e.g. "layers.3.mlp.up.weight"
  DType dtype = DType::f32;
  Shape tensor;  // shape of the whole tensor, without padding of the vocabulary
  Region region;
  Byte* data = nullptr;
  Device* device = nullptr;  // whose memory it is; null: the host's
  // The store that it is in instead of in memory, from this byte on.
  std::shared_ptr<SliceStore> store = nullptr;
  std::int64_t store_begin = 0;

  std::int64_t bytes() const { return region.count() * size_of(dtype); }
  // Calls access(Byte* host) with `count` bytes of it from byte `begin` on: to read them, or to
  // replace them in full. Thread-safe.
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
