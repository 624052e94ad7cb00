// Gradients of the biases of experts: sums of each expert's rows.
#pragma once

#include "graph/ops/support.h"

namespace trireme::ops {

// Scratch for the sums of each block of each group, where gradients are summed as integers.
inline std::int64_t group_bias_scratch(std::int64_t cols, std::int64_t groups,
                                       std::int64_t blocks) {
  return groups * blocks * cols * size_of(DType::f32);
}

// Adds the gradient of the biases that begin at element `first` of an output. `scratch`: as above.
template <class T>
void add_group_bias_grad(const Launch& l, int output, std::int64_t first,
                         const GroupBiasShape& shape, const T* dy, const std::int32_t* offsets,
                         void* scratch) {
  using A = Acc<T>;
  if (l.output_value(output).dtype != DType::i64) {
    return kernels<T>(l).group_bias_grad(l.queue, shape, l.output<A>(output) + first, true, dy,
                                         offsets);
  }
  const std::int64_t cols = shape.cols, blocks = shape.blocks;
  kernels<T>(l).group_bias_grad(l.queue, {shape.rows, cols, shape.groups * blocks, cols},
                                static_cast<A*>(scratch), false, dy, offsets);
  const auto* made = static_cast<const float*>(scratch);
  for (std::int64_t i = 0; i < shape.groups * blocks; ++i, made += cols) {
    l.device.state_kernels().add_fixed_point(
        l.queue, l.output<std::int64_t>(output) + first + i / blocks * shape.stride, made, cols,
        l.step, l.fixed_point.limit, false, l.fixed_point.overflows);
  }
}

}  // namespace trireme::ops
