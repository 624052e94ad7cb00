// LayerNorm and RMSNorm, fused with the preceding residual addition. One block per row.
#include "backend/gpu/kernels/dropout.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

// Groups of eight elements that a thread keeps in registers; it rereads the rest when needed.
constexpr int held = 2;

template <class T>
struct NormArguments {
  T* y;
  float *mean, *rstd;
  const T *x, *weight, *bias;
  T* sum;
  const T* delta;
  std::int64_t cols;
  float eps, one;  // one: offset added to the weights
  bool centered, aligned;
  DropoutSite dropout;
};

// One row, shared by the threads of a block.
template <class T, int threads>
struct NormRow {
  const NormArguments<T>& a;
  HiddenMask<threads>& mask;
  std::int64_t offset;  // of the row
  int before;           // columns by which the first thread starts before the row
  int steps;            // passes of the block over the row

  GPU_FN Columns columns(int step) const {
    return columns_at(8 * (step * threads + static_cast<int>(thread_index())) - before, a.cols,
                      a.aligned);
  }
  // Returns the norm's input: x, or x + dropout(delta), which is stored. All threads call it.
  GPU_FN Eight first_reading(int step, const Eight& x, const Eight& delta) const {
    if (!a.delta) return x;
    const Columns at = columns(step);
    const Eight kept = mask.apply(delta, at.first);
    const Eight sum = rounded<T>(each([](float p, float q) { return p + q; }, x, kept));
    store(a.sum + offset, at, sum);
    return sum;
  }
  GPU_FN Eight load_x(int step) const { return load(a.x + offset, columns(step)); }
  GPU_FN Eight load_delta(int step) const {
    return a.delta ? load(a.delta + offset, columns(step)) : zeros();
  }
  GPU_FN Eight reading(int step) const {
    return load((a.delta ? a.sum : a.x) + offset, columns(step));
  }
  // Calls body(columns, x) for everything assigned to this thread.
  template <class Body>
  GPU_FN void visit(const Eight (&x)[held], const Body& body) const {
#pragma unroll
    for (int k = 0; k < held; ++k) {
      if (k < steps) body(columns(k), x[k]);
    }
#pragma unroll 1
    for (int k = held; k < steps; ++k) body(columns(k), reading(k));
  }
};

template <class T, int threads>
GPU_KERNEL(threads)
norm_kernel(const NormArguments<T> a) {
  const std::int64_t row = block_index().x;
  HiddenMask<threads> mask(a.dropout);
  mask.set_row(row);
  const auto before = static_cast<int>(HiddenMask<threads>::columns_before(a.dropout));
  const NormRow<T, threads> r{
      a, mask, row * a.cols, before,
      static_cast<int>((a.cols + before + 8 * threads - 1) / (8 * threads))};
  Eight x[held], delta[held];
#pragma unroll
  for (int k = 0; k < held; ++k) {
    x[k] = k < r.steps ? r.load_x(k) : zeros();
    delta[k] = k < r.steps ? r.load_delta(k) : zeros();
  }
  float total = 0;
#pragma unroll
  for (int k = 0; k < held; ++k) {
    if (k < r.steps) x[k] = r.first_reading(k, x[k], delta[k]);
    total += sum_of(x[k]);
  }
#pragma unroll 1
  for (int k = held; k < r.steps; ++k)
    total += sum_of(r.first_reading(k, r.load_x(k), r.load_delta(k)));

  const float count = static_cast<float>(a.cols);
  const float center = a.centered ? block_sum<threads>(total) / count : 0.0f;
  float squares = 0;
  r.visit(x, [&](const Columns& at, const Eight& values) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float d = at.has(i) ? values.v[i] - center : 0.0f;
      squares += d * d;
    }
  });
  const float scale = 1.0f / sqrt(block_sum<threads>(squares) / count + a.eps);
  if (thread_index() == 0) {
    if (a.mean) a.mean[row] = center;
    if (a.rstd) a.rstd[row] = scale;
  }
  r.visit(x, [&](const Columns& at, const Eight& values) {
    const auto unit = [=](float v, float w) { return (v - center) * scale * (w + a.one); };
    Eight y = each(unit, values, load(a.weight, at));
    if (a.bias) y = each([](float p, float q) { return p + q; }, y, load(a.bias, at));
    store(a.y + r.offset, at, y);
  });
}

template <class T>
void norm(Queue& queue, const NormShape& shape, T* y, float* mean, float* rstd, const T* x,
          const T* weight, const T* bias, T* sum, const T* delta, const Dropout& dropout) {
  const DropoutSite site(delta ? dropout : Dropout{});
  const bool aligned =
      site.is_aligned() && rows_are_aligned(shape.cols, y, x, sum, delta, weight, bias);
  const NormArguments<T> a{y,
                           mean,
                           rstd,
                           x,
                           weight,
                           bias,
                           sum,
                           delta,
                           shape.cols,
                           static_cast<float>(shape.eps),
                           shape.zero_centered ? 1.0f : 0.0f,
                           shape.kind == NormKind::layer_norm,
                           aligned,
                           site};
  // Uses as few threads as hold a row in registers, but enough for long rows.
  if (shape.cols <= 8 * held * 64)
    launch(queue, one_block_each(shape.rows, 64), norm_kernel<T, 64>, a);
  else if (shape.cols <= 8 * held * 256)
    launch(queue, one_block_each(shape.rows, 256), norm_kernel<T, 256>, a);
  else
    launch(queue, one_block_each(shape.rows, 512), norm_kernel<T, 512>, a);
}

}  // namespace

template <class T>
void set_norm(Kernels<T>& table) {
  table.norm = norm<T>;
}
TRIREME_GPU_INSTANTIATE(set_norm);

}  // namespace trireme::gpu
