// Gradients of LayerNorm and RMSNorm. Each block processes one chunk of rows and accumulates the
// weight gradients in registers meanwhile.
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/partial_sums.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"
#include "backend/gpu/row_chunks.h"

namespace trireme::gpu {
namespace {

// Groups of eight elements that a thread keeps in registers, with as many sums; further sums
// are kept in the workspace.
constexpr int held = 2;

template <class T>
struct NormGradArguments {
  T* dx;
  const T *dy, *x;
  const float *mean, *rstd;
  const T *weight, *dres;
  float *weight_parts, *bias_parts;  // [chunks, cols]; bias_parts may be null
  std::int64_t rows, cols, chunk_rows;
  float one;  // offset added to the weights
  bool centered, aligned;
  bool aligned_parts;
};

template <int threads>
struct PairParts {
  float first[2][threads / narrowest_wave], second[2][threads / narrowest_wave];
};

// Sums two values over the block. Calls alternate buffers, so that one barrier is enough.
template <int threads>
GPU_FN void block_sums(float& first, float& second, int turn) {
  auto& shared = shared_memory<PairParts<threads>>();
  first = wave_sum(first);
  second = wave_sum(second);
  if (lane() == 0) {
    shared.first[turn][wave_index()] = first;
    shared.second[turn][wave_index()] = second;
  }
  sync_block();
  first = second = 0;
  for (int i = 0; i < threads / wave_width; ++i) {
    first += shared.first[turn][i];
    second += shared.second[turn][i];
  }
}

// Per-row values of the gradient, besides the row itself.
struct RowGrad {
  float mean, rstd;
  float grad_mean;       // mean of dy * weight; 0 for RMSNorm
  float grad_direction;  // mean of dy * weight * normalized x
};

// One block's chunk of rows.
template <class T, int threads>
class GradChunk {
 public:
  GPU_FN explicit GradChunk(const NormGradArguments<T>& a)
      : a_(a),
        steps_(static_cast<int>((a.cols + 8 * threads - 1) / (8 * threads))),
        weight_part_(a.weight_parts + std::int64_t{block_index().x} * a.cols),
        bias_part_(a.bias_parts ? a.bias_parts + std::int64_t{block_index().x} * a.cols : nullptr) {
    for (int k = 0; k < held; ++k) dweight_[k] = dbias_[k] = zeros();
    for (int k = held; k < steps_; ++k) store_parts(k, zeros(), zeros());
  }

  GPU_FN void add_row(std::int64_t row, int turn) {
    offset_ = row * a_.cols;
    Eight x[held], dy[held];
#pragma unroll
    for (int k = 0; k < held; ++k) {
      x[k] = k < steps_ ? load(a_.x + offset_, columns(k)) : zeros();
      dy[k] = k < steps_ ? load(a_.dy + offset_, columns(k)) : zeros();
    }
    const RowGrad grad = reduce(row, x, dy, turn);
#pragma unroll
    for (int k = 0; k < held; ++k) {
      if (k < steps_) apply(grad, columns(k), x[k], dy[k], dweight_[k], dbias_[k]);
    }
    for (int k = held; k < steps_; ++k) {
      const Columns at = columns(k);
      Eight dw = load(weight_part_, part_columns(k));
      Eight db = bias_part_ ? load(bias_part_, part_columns(k)) : zeros();
      apply(grad, at, load(a_.x + offset_, at), load(a_.dy + offset_, at), dw, db);
      store_parts(k, dw, db);
    }
  }

  GPU_FN void finish() const {
#pragma unroll
    for (int k = 0; k < held; ++k) {
      if (k < steps_) store_parts(k, dweight_[k], dbias_[k]);
    }
  }

 private:
  GPU_FN std::int64_t first_column(int step) const {
    return 8 * (std::int64_t{step} * threads + thread_index());
  }
  GPU_FN Columns columns(int step) const {
    return columns_at(first_column(step), a_.cols, a_.aligned);
  }
  GPU_FN Columns part_columns(int step) const {
    return columns_at(first_column(step), a_.cols, a_.aligned_parts);
  }

  GPU_FN RowGrad reduce(std::int64_t row, const Eight (&x)[held], const Eight (&dy)[held],
                        int turn) const {
    RowGrad grad{a_.centered ? a_.mean[row] : 0.0f, a_.rstd[row], 0, 0};
    float sum = 0, dot = 0;
    const auto add = [&](const Columns& at, const Eight& x8, const Eight& dy8) {
      const Eight weight = load(a_.weight, at);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float g = dy8.v[i] * (weight.v[i] + a_.one);
        sum += g;
        dot += g * (x8.v[i] - grad.mean);
      }
    };
#pragma unroll
    for (int k = 0; k < held; ++k) {
      if (k < steps_) add(columns(k), x[k], dy[k]);
    }
    for (int k = held; k < steps_; ++k) {
      const Columns at = columns(k);
      add(at, load(a_.x + offset_, at), load(a_.dy + offset_, at));
    }
    block_sums<threads>(sum, dot, turn);
    const float count = static_cast<float>(a_.cols);
    grad.grad_mean = a_.centered ? sum / count : 0.0f;
    grad.grad_direction = dot * grad.rstd / count;
    return grad;
  }

  // Computes dx of eight columns; adds their contributions to the weight and bias gradients.
  GPU_FN void apply(const RowGrad& grad, const Columns& at, const Eight& x, const Eight& dy,
                    Eight& dweight, Eight& dbias) const {
    const Eight weight = load(a_.weight, at);
    Eight dx = a_.dres ? load(a_.dres + offset_, at) : zeros();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float unit = (x.v[i] - grad.mean) * grad.rstd;
      const float g = dy.v[i] * (weight.v[i] + a_.one);
      dx.v[i] += (g - grad.grad_mean - unit * grad.grad_direction) * grad.rstd;
      dweight.v[i] += dy.v[i] * unit;
      dbias.v[i] += dy.v[i];
    }
    store(a_.dx + offset_, at, dx);
  }

  GPU_FN void store_parts(int step, const Eight& dweight, const Eight& dbias) const {
    store(weight_part_, part_columns(step), dweight);
    if (bias_part_) store(bias_part_, part_columns(step), dbias);
  }

  const NormGradArguments<T>& a_;
  int steps_;  // passes of the block over a row
  float *weight_part_, *bias_part_;
  std::int64_t offset_ = 0;  // of the row
  Eight dweight_[held], dbias_[held];
};

template <class T, int threads>
GPU_KERNEL(threads)
norm_grad_kernel(const NormGradArguments<T> a) {
  GradChunk<T, threads> chunk(a);
  const std::int64_t first = block_index().x * a.chunk_rows;
  const std::int64_t end = first + a.chunk_rows < a.rows ? first + a.chunk_rows : a.rows;
  for (std::int64_t row = first; row < end; ++row)
    chunk.add_row(row, static_cast<int>((row - first) % 2));
  chunk.finish();
}

template <class T>
void norm_grad(Queue& queue, const NormShape& shape, const NormGradOperands<T>& o) {
  const std::int64_t cols = shape.cols;
  const RowChunks chunks = norm_grad_chunks(shape.rows);
  float* const bias_parts = o.dbias ? o.workspace + chunks.count * cols : nullptr;
  const NormGradArguments<T> a{.dx = o.dx,
                               .dy = o.dy,
                               .x = o.x,
                               .mean = o.mean,
                               .rstd = o.rstd,
                               .weight = o.weight,
                               .dres = o.dres,
                               .weight_parts = o.workspace,
                               .bias_parts = bias_parts,
                               .rows = shape.rows,
                               .cols = cols,
                               .chunk_rows = chunks.rows_each,
                               .one = shape.zero_centered ? 1.0f : 0.0f,
                               .centered = shape.kind == NormKind::layer_norm,
                               .aligned = rows_are_aligned(cols, o.dx, o.dy, o.x, o.weight, o.dres),
                               .aligned_parts = rows_are_aligned(cols, o.workspace)};
  if (cols <= 8 * held * 64)
    launch(queue, one_block_each(chunks.count, 64), norm_grad_kernel<T, 64>, a);
  else if (cols <= 8 * held * 256)
    launch(queue, one_block_each(chunks.count, 256), norm_grad_kernel<T, 256>, a);
  else
    launch(queue, one_block_each(chunks.count, 512), norm_grad_kernel<T, 512>, a);
  add_parts(queue, o.dweight, o.accumulate, o.workspace, chunks.count, cols);
  if (o.dbias) add_parts(queue, o.dbias, o.accumulate, bias_parts, chunks.count, cols);
}

}  // namespace

template <class T>
void set_norm_grad(Kernels<T>& table) {
  table.norm_grad = norm_grad<T>;
}
TRIREME_GPU_INSTANTIATE(set_norm_grad);

}  // namespace trireme::gpu
