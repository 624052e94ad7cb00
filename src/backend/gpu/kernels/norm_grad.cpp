// Gradients of LayerNorm and RMSNorm. Each block processes one chunk of rows and accumulates sums
// over rows in registers meanwhile: the gradients of weight and bias and, where they are wanted,
// those of the biases of the layers whose results have the gradients dx and dres.
#include "backend/gpu/kernels/bias_grad.h"
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/partial_sums.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"
#include "backend/gpu/row_chunks.h"

namespace trireme::gpu {
namespace {

template <class T>
struct NormGradArguments {
  T* dx;
  const T *dy, *x;
  const float *mean, *rstd;
  const T *weight, *dres;
  float* parts[most_sums];  // [chunks, cols] for each sum; null if it is not wanted
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

// Kinds of sums over rows, in the order of their parts. The last two are compiled in where one of
// them is wanted.
enum Sum { weight_sum, bias_sum, dx_sum, dres_sum };

// One block's chunk of rows. A thread keeps `held` groups of eight elements in registers, with as
// many sums of each kind; further sums are kept in the workspace.
template <class T, int threads, int held, int sums>
class GradChunk {
  // dres is loaded early, so that nothing is waited for after the sums of a row, where there are
  // registers for it.
  static constexpr bool early = held == 1;

  struct Sums {
    Eight of[sums];
  };

 public:
  GPU_FN explicit GradChunk(const NormGradArguments<T>& a)
      : a_(a), steps_(static_cast<int>((a.cols + 8 * threads - 1) / (8 * threads))) {
    for (int k = 0; k < held; ++k) held_[k] = no_sums();
    for (int k = held; k < steps_; ++k) store_parts(k, no_sums());
  }

  GPU_FN void add_row(std::int64_t row, int turn) {
    offset_ = row * a_.cols;
    Eight x[held], dy[held], dres[held];
#pragma unroll
    for (int k = 0; k < held; ++k) {
      x[k] = k < steps_ ? load(a_.x + offset_, columns(k)) : zeros();
      dy[k] = k < steps_ ? load(a_.dy + offset_, columns(k)) : zeros();
      dres[k] = early && k < steps_ ? residual(columns(k)) : zeros();
    }
    const RowGrad grad = reduce(row, x, dy, turn);
#pragma unroll
    for (int k = 0; k < held; ++k) {
      if (k >= steps_) continue;
      if constexpr (!early) dres[k] = residual(columns(k));
      apply(grad, columns(k), x[k], dy[k], dres[k], held_[k]);
    }
    for (int k = held; k < steps_; ++k) {
      const Columns at = columns(k);
      Sums kept = load_parts(k);
      apply(grad, at, load(a_.x + offset_, at), load(a_.dy + offset_, at), residual(at), kept);
      store_parts(k, kept);
    }
  }

  GPU_FN void finish() const {
#pragma unroll
    for (int k = 0; k < held; ++k) {
      if (k < steps_) store_parts(k, held_[k]);
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

  GPU_FN Eight residual(const Columns& at) const {
    return a_.dres ? load(a_.dres + offset_, at) : zeros();
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

  // Computes dx of eight columns; adds their contributions to the sums.
  GPU_FN void apply(const RowGrad& grad, const Columns& at, const Eight& x, const Eight& dy,
                    const Eight& dres, Sums& to) const {
    const Eight weight = load(a_.weight, at);
    Eight dx = dres;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float unit = (x.v[i] - grad.mean) * grad.rstd;
      const float g = dy.v[i] * (weight.v[i] + a_.one);
      dx.v[i] += (g - grad.grad_mean - unit * grad.grad_direction) * grad.rstd;
      to.of[weight_sum].v[i] += dy.v[i] * unit;
      to.of[bias_sum].v[i] += dy.v[i];
    }
    store(a_.dx + offset_, at, dx);
    if constexpr (sums > dres_sum) {
      const auto add = [](float p, float q) { return p + q; };
      to.of[dx_sum] = each(add, to.of[dx_sum], rounded<T>(dx));
      to.of[dres_sum] = each(add, to.of[dres_sum], dres);
    }
  }

  GPU_FN static Sums no_sums() {
    Sums none;
#pragma unroll
    for (int sum = 0; sum < sums; ++sum) none.of[sum] = zeros();
    return none;
  }
  GPU_FN float* part(int sum) const {
    return a_.parts[sum] + std::int64_t{block_index().x} * a_.cols;
  }
  GPU_FN Sums load_parts(int step) const {
    Sums kept;
#pragma unroll
    for (int sum = 0; sum < sums; ++sum)
      kept.of[sum] = a_.parts[sum] ? load(part(sum), part_columns(step)) : zeros();
    return kept;
  }
  GPU_FN void store_parts(int step, const Sums& kept) const {
#pragma unroll
    for (int sum = 0; sum < sums; ++sum)
      if (a_.parts[sum]) store(part(sum), part_columns(step), kept.of[sum]);
  }

  const NormGradArguments<T>& a_;
  int steps_;                // passes of the block over a row
  std::int64_t offset_ = 0;  // of the row
  Sums held_[held];
};

template <class T, int threads, int held, int sums>
GPU_KERNEL(threads)
norm_grad_kernel(const NormGradArguments<T> a) {
  GradChunk<T, threads, held, sums> chunk(a);
  const std::int64_t first = block_index().x * a.chunk_rows;
  const std::int64_t end = first + a.chunk_rows < a.rows ? first + a.chunk_rows : a.rows;
  for (std::int64_t row = first; row < end; ++row)
    chunk.add_row(row, static_cast<int>((row - first) % 2));
  chunk.finish();
}

template <int threads, int held, int sums, class T>
void launch_with(Queue& queue, std::int64_t chunks, const NormGradArguments<T>& a) {
  launch(queue, one_block_each(chunks, threads), norm_grad_kernel<T, threads, held, sums>, a);
}

// Registers decide: with one group of eight per thread, two blocks of 256 or one of 512 share a
// processor. With two groups, the sums of biases would not fit.
constexpr std::int64_t widest_with_sums = 8 * 512;

template <int sums, class T>
void launch_norm_grad(Queue& queue, std::int64_t chunks, const NormGradArguments<T>& a) {
  if (a.cols <= 8 * 2 * 64)
    launch_with<64, 2, sums>(queue, chunks, a);
  else if (a.cols <= 8 * 256)
    launch_with<256, 1, sums>(queue, chunks, a);
  else if (a.cols <= widest_with_sums)
    launch_with<512, 1, sums>(queue, chunks, a);
  else
    launch_with<512, 2, bias_sum + 1>(queue, chunks, a);  // the other sums are made apart
}

template <class T>
void norm_grad(Queue& queue, const NormShape& shape, const NormGradOperands<T>& o) {
  const std::int64_t cols = shape.cols;
  const RowChunks chunks = norm_grad_chunks(shape.rows);
  NormGradArguments<T> a{.dx = o.dx,
                         .dy = o.dy,
                         .x = o.x,
                         .mean = o.mean,
                         .rstd = o.rstd,
                         .weight = o.weight,
                         .dres = o.dres,
                         .parts = {},
                         .rows = shape.rows,
                         .cols = cols,
                         .chunk_rows = chunks.rows_each,
                         .one = shape.zero_centered ? 1.0f : 0.0f,
                         .centered = shape.kind == NormKind::layer_norm,
                         .aligned = rows_are_aligned(cols, o.dx, o.dy, o.x, o.weight, o.dres),
                         .aligned_parts = rows_are_aligned(cols, o.workspace)};
  float* wanted[most_sums] = {o.dweight, o.dbias, o.dx_sum, o.dres_sum};
  const bool apart = cols > widest_with_sums;
  if (apart) wanted[dx_sum] = wanted[dres_sum] = nullptr;
  if (apart && o.dres_sum)  // before dx overwrites dres
    bias_grad(queue, o.dres_sum, o.accumulate, o.dres, shape.rows, cols, o.workspace);
  float* next = o.workspace;
  for (int sum = 0; sum < most_sums; ++sum) {
    if (!wanted[sum]) continue;
    a.parts[sum] = next;
    next += chunks.count * cols;
  }
  if (wanted[dx_sum] || wanted[dres_sum])
    launch_norm_grad<dres_sum + 1>(queue, chunks.count, a);
  else
    launch_norm_grad<bias_sum + 1>(queue, chunks.count, a);
  add_parts(queue, wanted, o.accumulate, o.workspace, chunks.count, cols);
  if (apart && o.dx_sum)
    bias_grad(queue, o.dx_sum, o.accumulate, o.dx, shape.rows, cols, o.workspace);
}

}  // namespace

template <class T>
void set_norm_grad(Kernels<T>& table) {
  table.norm_grad = norm_grad<T>;
}
TRIREME_GPU_INSTANTIATE(set_norm_grad);

}  // namespace trireme::gpu
