// The two operands of an FP8 product (Graph::fp8): the tiles that share a scale
// (docs/decisions/fp8.md), and the layout of the rounded numbers in scratch.
#pragma once

#include "base/line_parts.h"
#include "graph/ops/support.h"

namespace trireme::ops {

constexpr std::int64_t fp8_block = 128;  // of the blockwise recipe (DeepSeek-AI 2024)

inline bool is_fp8(const Graph& g) {
  return g.fp8().recipe != Fp8Recipe::none;
}
// The type in which rounded operands are stored in scratch and multiplied. bf16 represents all of
// them exactly if scales are powers of two; GPUs then use their bf16 matrix units.
inline DType fp8_product_type(DeviceKind device, const Graph& g) {
  const bool fits = g.compute() == DType::bf16 && g.fp8().power_of_2_scales;
  return fits && device != DeviceKind::cpu ? DType::bf16 : g.accumulate();
}

// Tiles of one or several weight matrices stacked vertically: one scale per matrix, or one per
// square block.
inline Fp8Tiles tiles_of_weights(const Fp8Products& fp8, const Shape& shape,
                                 std::int64_t matrices) {
  const bool whole = fp8.recipe == Fp8Recipe::tensorwise;
  const std::int64_t rows = shape[0] / matrices;
  return {shape[0],
          shape[1],
          rows,
          whole ? rows : fp8_block,
          whole ? shape[1] : fp8_block,
          fp8.forward,
          fp8.power_of_2_scales};
}

struct Fp8Operands {
  Fp8Tiles a, b;
  std::int64_t result_cols;  // its rows are the rows of a
  DType type;                // of the product
  bool stores;               // the result is an activation of a different type
  std::int64_t largest = 0, rounded_a = 0, rounded_b = 0, made = 0, rest = 0;  // bytes

  // `stored`: the result is an activation, not a weight gradient.
  Fp8Operands(DeviceKind device, const Graph& g, const Fp8Tiles& first, const Fp8Tiles& second,
              std::int64_t cols, bool stored)
      : a(first),
        b(second),
        result_cols(cols),
        type(fp8_product_type(device, g)),
        stores(stored && g.compute() != type) {
    const std::int64_t element = size_of(type);
    LineParts parts;
    largest = parts.add((a.count() + b.count()) * size_of(DType::f32));
    rounded_a = parts.add(a.rows * a.cols * element);
    rounded_b = parts.add(b.rows * b.cols * element);
    made = parts.add(stores ? a.rows * result_cols * element : 0);
    rest = parts.bytes;
  }
};

// The scratch of a running product, which converts T to the type of the product.
template <class T>
class Fp8Rounded {
 public:
  Fp8Rounded(const Device& device, Queue& queue, const Fp8Operands& operands, std::byte* scratch)
      : kernels_(device.kernels<T>()), queue_(queue), o_(operands), scratch_(scratch) {}

  float* largest() const { return reinterpret_cast<float*>(scratch_ + o_.largest); }
  std::byte* a() const { return scratch_ + o_.rounded_a; }
  std::byte* b() const { return scratch_ + o_.rounded_b; }
  std::byte* made() const { return scratch_ + o_.made; }
  std::byte* rest() const { return scratch_ + o_.rest; }

  void find_largest(const T* a, const T* b) const {
    kernels_.fp8_largest(queue_, o_.a, largest(), a);
    kernels_.fp8_largest(queue_, o_.b, largest() + o_.a.count(), b);
  }
  void round(const T* a, const T* b) const {
    round_one(o_.a, largest(), this->a(), a);
    round_one(o_.b, largest() + o_.a.count(), this->b(), b);
  }
  // y = made + bias, which may be null.
  void store(T* y, const T* bias) const {
    kernels_.store_sums(queue_, y, reinterpret_cast<const Acc<T>*>(made()), bias, o_.a.rows,
                        o_.result_cols);
  }

 private:
  void round_one(const Fp8Tiles& tiles, const float* largest, std::byte* y, const T* x) const {
    if (o_.type == dtype_of<Acc<T>>) {
      kernels_.fp8_round(queue_, tiles, largest, reinterpret_cast<Acc<T>*>(y), x);
    } else {
      kernels_.fp8_round_stored(queue_, tiles, largest, reinterpret_cast<T*>(y), x);
    }
  }

  const Kernels<T>& kernels_;
  Queue& queue_;
  const Fp8Operands& o_;
  std::byte* scratch_;
};

}  // namespace trireme::ops
