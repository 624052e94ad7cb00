// The two operands of a product in fp8 (Graph::fp8): which tiles share a scale
// (docs/decisions/fp8.md), and where the rounded numbers lie in scratch.
#pragma once

#include "backend/cpu/fp8.h"
#include "base/line_parts.h"
#include "ops/support.h"

namespace trireme::ops {

constexpr std::int64_t fp8_block = 128;  // of the blockwise recipe (DeepSeek-AI 2024)

inline bool is_fp8(const Graph& g) {
  return g.fp8().recipe != Fp8Recipe::none;
}
// Refuses devices without such products.
void check_fp8_device(const Target&);

// Weights of one or several matrices, one below the other: each has one scale, or one for each
// square block.
inline cpu::Fp8Tiles tiles_of_weights(const Fp8Products& fp8, const Shape& shape,
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
  cpu::Fp8Tiles a, b;
  std::int64_t result_cols;  // its rows are those of a
  bool stores;               // the result is not of the type of arithmetic
  std::int64_t largest = 0, rounded_a = 0, rounded_b = 0, made = 0, rest = 0;  // bytes

  // `stored`: the result is an activation, and not the gradient of a weight.
  Fp8Operands(const Graph& g, const cpu::Fp8Tiles& a, const cpu::Fp8Tiles& b,
              std::int64_t result_cols, bool stored)
      : a(a), b(b), result_cols(result_cols), stores(stored && g.compute() != g.accumulate()) {
    const std::int64_t element = size_of(g.accumulate());
    LineParts parts;
    largest = parts.add((a.count() + b.count()) * size_of(DType::f32));
    rounded_a = parts.add(a.rows * a.cols * element);
    rounded_b = parts.add(b.rows * b.cols * element);
    made = parts.add(stores ? a.rows * result_cols * element : 0);
    rest = parts.bytes;
  }
};

// The scratch of a running product, in which T becomes Acc<T>. A device that only records notes
// that each operand is read twice and written once: the kernels are the CPU's alone, and no entries
// of its table.
template <class T>
class Fp8Rounded {
 public:
  using A = Acc<T>;

  Fp8Rounded(const Device& device, Queue& queue, const Fp8Operands& operands, std::byte* scratch)
      : device_(device), queue_(queue), o_(operands), scratch_(scratch) {}

  float* largest() const { return reinterpret_cast<float*>(scratch_ + o_.largest); }
  A* a() const { return reinterpret_cast<A*>(scratch_ + o_.rounded_a); }
  A* b() const { return reinterpret_cast<A*>(scratch_ + o_.rounded_b); }
  A* made() const { return reinterpret_cast<A*>(scratch_ + o_.made); }
  std::byte* rest() const { return scratch_ + o_.rest; }

  void find_largest(const T* a, const T* b) const {
    if (!device_.computes()) return;
    cpu::fp8_largest(largest(), a, o_.a);
    cpu::fp8_largest(largest() + o_.a.count(), b, o_.b);
  }
  void round(const T* a, const T* b) const {
    round_one(this->a(), a, largest(), o_.a);
    round_one(this->b(), b, largest() + o_.a.count(), o_.b);
  }
  // y = made + bias, which may be null.
  void store(T* y, const T* bias) const {
    if (device_.computes()) cpu::store_sums(y, made(), bias, o_.a.rows, o_.result_cols);
  }

 private:
  void round_one(A* y, const T* x, const float* largest, const cpu::Fp8Tiles& tiles) const {
    if (device_.computes()) {
      cpu::fp8_round(y, x, largest, tiles);
    } else {
      queue_.copy(y, x, tiles.rows * tiles.cols * size_of(DType::f32));
    }
  }

  const Device& device_;
  Queue& queue_;
  const Fp8Operands& o_;
  std::byte* scratch_;
};

}  // namespace trireme::ops
