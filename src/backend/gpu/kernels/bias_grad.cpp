// Gradient of a bias: a sum over rows.
#include "backend/gpu/kernels/bias_grad.h"

#include "backend/gpu/kernels/row_sums.h"
#include "backend/gpu/kernels/table.h"

namespace trireme::gpu {
namespace {

template <class T>
GPU_KERNEL(RowSums::threads)
bias_parts_kernel(const RowSums sums, const T* dy, bool aligned) {
  sums.add(aligned,
           [=](std::int64_t row, const Columns& at) { return load(dy + row * sums.cols, at); });
}

}  // namespace

template <class T>
void bias_grad(Queue& queue, float* dbias, bool accumulate, const T* dy, std::int64_t rows,
               std::int64_t cols, float* workspace) {
  sum_rows(queue, dbias, accumulate, workspace, rows, cols, bias_parts_kernel<T>, dy,
           rows_are_aligned(cols, dy));
}

template <class T>
void set_bias_grad(Kernels<T>& table) {
  table.bias_grad = bias_grad<T>;
}
TRIREME_GPU_INSTANTIATE(set_bias_grad);

}  // namespace trireme::gpu
