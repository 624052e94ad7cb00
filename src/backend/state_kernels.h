// Kernels on gradients and optimizer states, independent of the activations' storage type: sums in
// floating point, fixed point and bf16.
#pragma once

#include <cstdint>

#include "backend/step_block.h"
#include "base/dtype.h"

namespace trireme {

class Queue;

// The unit of a fixed-point gradient of the mean loss, 2^-44: a millionth of Adam's usual epsilon.
inline constexpr int fixed_point_bits = 44;
// The largest magnitude of one summand such that `summands` of them cannot overflow.
double fixed_point_limit(std::int64_t summands);

// Random bits for stochastic rounding to bf16: up or down with probabilities that keep the expected
// value. Round-to-nearest would lose every summand below half the last bit of the sum. The bits are
// a pure function of (seed, counter, stream, use) and of the element; `stream` and `use`
// distinguish the arrays of one step.
struct Rounding {
  enum class Counter : std::uint8_t { step, updates };

  const StepBlock* block = nullptr;  // seed, and the counter: the step or the optimizer's updates
  std::uint64_t seed_offset = 0;     // added to the seed
  Counter counter = Counter::step;
  std::uint32_t stream = 0, use = 0;
};

struct StateKernels {
  // sums[i] += summands[i]; bf16 is added in float and rounded to nearest.
  void (*add)(Queue&, DType, void* sums, const void* summands, std::int64_t count);

  // Gradients as 64-bit fixed-point numbers: integer sums do not depend on their order.
  // sums[i] (= or +=) gradient[i] * 2^44 / loss scale, rounded to nearest, ties to even.
  // `overflows` grows if any element is not finite or exceeds `limit` (in units of the sum);
  // the sum is then invalid.
  void (*add_fixed_point)(Queue&, std::int64_t* sums, const float* gradient, std::int64_t count,
                          const StepBlock*, double limit, bool overwrite, std::int64_t* overflows);
  // Converts sums to gradients times the loss scale, in place: element i of the result is the i-th
  // float of the same memory.
  void (*fixed_point_to_float)(Queue&, std::int64_t* sums, std::int64_t count, const StepBlock*);

  void (*widen)(Queue&, float* dst, const bf16* src, std::int64_t count);
  // Rounds with bits that depend only on (rounding, first + i), so that any partition of an array
  // gives the same result. `first` is a multiple of 4.
  void (*narrow)(Queue&, bf16* dst, const float* src, std::int64_t count, const Rounding&,
                 std::int64_t first);
  // sums[i] = summands[i], or sums[i] += summands[i], rounded in the same way; `first` is 0.
  void (*add_narrow)(Queue&, bf16* sums, const float* summands, std::int64_t count, const Rounding&,
                     bool overwrite);

  // Copies `rows` rows of `bytes` each, `src_stride` and `dst_stride` bytes apart.
  void (*copy_rows)(Queue&, void* dst, std::int64_t dst_stride, const void* src,
                    std::int64_t src_stride, std::int64_t bytes, std::int64_t rows);

  // dst[i] = the sum or maximum over `ranks` ranks of element i, in rank order: bf16 and f16 in
  // float, rounded once; a maximum propagates NaN. Rank k's part begins at parts + k * stride
  // elements, except for rank `own`, whose part is `mine` and may alias dst.
  void (*reduce_parts)(Queue&, DType, bool maximum, void* dst, const void* mine, const void* parts,
                       std::int64_t stride, int ranks, int own, std::int64_t count);
};

// clang-format off
#define TRIREME_STATE_KERNELS(X) \
  X(add) X(add_fixed_point) X(fixed_point_to_float) X(widen) X(narrow) X(add_narrow) \
  X(copy_rows) X(reduce_parts)
// clang-format on

}  // namespace trireme
