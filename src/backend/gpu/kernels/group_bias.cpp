// Biases of groups of rows, and their gradients: a thread takes a column of a group, whose rows it
// reads in order.
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

// One block for each row; rows after those of the last group have no bias.
template <class T>
GPU_KERNEL(128)
add_group_bias_kernel(const GroupBiasShape s, T* y, const T* bias, const std::int32_t* offsets) {
  const std::int64_t row = block_index().x;
  std::int64_t group = 0;
  while (group < s.groups && row >= offsets[(group + 1) * s.blocks]) ++group;
  if (group == s.groups) return;
  for (std::int64_t c = thread_index(); c < s.cols; c += 128)
    y[row * s.cols + c] =
        from_float<T>(to_float(y[row * s.cols + c]) + to_float(bias[group * s.stride + c]));
}

template <class T>
void add_group_bias(Queue& queue, const GroupBiasShape& s, T* y, const T* bias,
                    const std::int32_t* offsets) {
  launch(queue, one_block_each(s.rows, 128), add_group_bias_kernel<T>, s, y, bias, offsets);
}

template <class T>
GPU_KERNEL(256)
group_bias_grad_kernel(const GroupBiasShape s, float* dbias, bool accumulate, const T* dy,
                       const std::int32_t* offsets) {
  for_each(s.groups * s.cols, [=](std::int64_t i) {
    const std::int64_t group = i / s.cols, column = i % s.cols;
    float sum = 0;
    for (std::int64_t r = offsets[group * s.blocks]; r < offsets[(group + 1) * s.blocks]; ++r)
      sum += to_float(dy[r * s.cols + column]);
    float& to = dbias[group * s.stride + column];
    to = accumulate ? to + sum : sum;
  });
}

template <class T>
void group_bias_grad(Queue& queue, const GroupBiasShape& s, float* dbias, bool accumulate,
                     const T* dy, const std::int32_t* offsets) {
  launch(queue, over(s.groups * s.cols), group_bias_grad_kernel<T>, s, dbias, accumulate, dy,
         offsets);
}

}  // namespace

template <class T>
void set_group_bias(Kernels<T>& table) {
  table.add_group_bias = add_group_bias<T>;
  table.group_bias_grad = group_bias_grad<T>;
}
TRIREME_GPU_INSTANTIATE(set_group_bias);

}  // namespace trireme::gpu
