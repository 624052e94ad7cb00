// Softmax statistics of rows of logits, the in-place gradient of the cross-entropy, both fused, and
// the loss from the statistics. One block per row of logits.
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

constexpr int threads = 256;
constexpr float lowest = -__builtin_inff();

// Running maximum, and sum of exp(x - maximum).
struct Softmax {
  float largest = lowest;
  double sum = 0;

  // Adds values whose maximum is `most`; missing values are `lowest`.
  GPU_FN void add(const Eight& x, float most) {
    raise(most);
    const float shift = this->shift();
    sum += sum_of(each([=](float v) { return exp(v - shift); }, x));
  }
  GPU_FN void raise(float to) {
    if (!(largest < to)) return;
    if (sum != 0) sum *= exp(largest - to);
    largest = to;
  }
  GPU_FN float shift() const { return largest == lowest ? 0.0f : largest; }
};

// Statistics of one row, computed by all threads of the block.
template <class T>
GPU_FN Softmax softmax_of_row(const T* x, std::int64_t vocab, bool aligned) {
  Softmax mine;
#pragma unroll 2
  for (std::int64_t c = 8 * thread_index(); c < vocab; c += 8 * threads) {
    const Columns at = columns_at(c, vocab, aligned);
    Eight values = load(x, at);
    float most = lowest;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (!at.has(i)) values.v[i] = lowest;
      most = most < values.v[i] ? values.v[i] : most;
    }
    mine.add(values, most);
  }
  mine.raise(block_max<threads>(mine.largest));
  mine.sum = block_sum<threads>(mine.sum);
  return mine;
}

template <class T>
GPU_FN float logit_of(const T* x, std::int64_t target, std::int64_t vocab) {
  return target >= 0 && target < vocab ? to_float(x[target]) : 0.0f;
}

template <class T>
GPU_KERNEL(threads)
softmax_stats_kernel(float* largest, float* sum, float* target_logit, const T* logits,
                     const std::int32_t* targets, std::int64_t vocab, std::int64_t ld,
                     std::int64_t first_id, bool aligned) {
  const std::int64_t row = block_index().x;
  const T* const x = logits + row * ld;
  const Softmax all = softmax_of_row(x, vocab, aligned);
  if (thread_index() != 0) return;
  largest[row] = all.largest;
  sum[row] = static_cast<float>(all.sum);
  target_logit[row] = logit_of(x, targets[row] - first_id, vocab);
}

template <class T>
void softmax_stats(Queue& queue, float* largest, float* sum, float* target_logit, const T* logits,
                   const std::int32_t* targets, std::int64_t rows, std::int64_t vocab,
                   std::int64_t ld, std::int64_t first_id) {
  launch(queue, one_block_each(rows, threads), softmax_stats_kernel<T>, largest, sum, target_logit,
         logits, targets, vocab, ld, first_id, rows_are_aligned(ld, logits));
}

// Replaces a row of logits by the gradient; called by all threads of the block.
template <class T>
GPU_FN void write_gradient(T* x, float lse, std::int64_t target, float scale, std::int64_t vocab,
                           std::int64_t ld, bool aligned) {
  for (std::int64_t c = 8 * thread_index(); c < ld; c += 8 * threads) {
    const Columns at = columns_at(c, ld, aligned);
    Eight values = load(x, at);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float probability = exp(values.v[i] - lse);
      const float gradient = (c + i == target ? probability - 1.0f : probability) * scale;
      values.v[i] = c + i < vocab ? gradient : 0.0f;
    }
    store(x, at, values);
  }
}

// Weight of a row in the gradient: see the kernel's entry in kernels.h.
GPU_FN float weight_of_row(const StepBlock* block, const float* weights, std::int64_t row) {
  return static_cast<float>(weights ? block->grad_scale * weights[row] : block->sample_scale);
}

template <class T>
GPU_KERNEL(threads)
cross_entropy_grad_kernel(T* logits, const float* lse, const std::int32_t* targets,
                          const float* weights, const StepBlock* block, std::int64_t vocab,
                          std::int64_t ld, std::int64_t first_id, bool aligned) {
  const std::int64_t row = block_index().x;
  write_gradient(logits + row * ld, lse[row], targets[row] - first_id,
                 weight_of_row(block, weights, row), vocab, ld, aligned);
}

template <class T>
void cross_entropy_grad(Queue& queue, T* logits, const float* lse, const std::int32_t* targets,
                        const float* weights, const StepBlock* block, std::int64_t rows,
                        std::int64_t vocab, std::int64_t ld, std::int64_t first_id) {
  launch(queue, one_block_each(rows, threads), cross_entropy_grad_kernel<T>, logits, lse, targets,
         weights, block, vocab, ld, first_id, rows_are_aligned(ld, logits));
}

template <class T>
GPU_KERNEL(threads)
classifier_kernel(T* logits, float* loss, const std::int32_t* targets, const float* weights,
                  const StepBlock* block, std::int64_t vocab, std::int64_t ld,
                  std::int64_t first_id, bool aligned) {
  const std::int64_t row = block_index().x;
  T* const x = logits + row * ld;
  const std::int64_t target = targets[row] - first_id;
  const Softmax all = softmax_of_row(x, vocab, aligned);
  const float target_logit = logit_of(x, target, vocab);
  const float lse = all.largest + log(static_cast<float>(all.sum));
  sync_block();  // all threads have read the target's logit, which one of them overwrites
  if (thread_index() == 0) loss[row] = lse - target_logit;
  write_gradient(x, lse, target, weight_of_row(block, weights, row), vocab, ld, aligned);
}

template <class T>
void classifier(Queue& queue, T* logits, float* loss, const std::int32_t* targets,
                const float* weights, const StepBlock* block, std::int64_t rows, std::int64_t vocab,
                std::int64_t ld, std::int64_t first_id) {
  launch(queue, one_block_each(rows, threads), classifier_kernel<T>, logits, loss, targets, weights,
         block, vocab, ld, first_id, rows_are_aligned(ld, logits));
}

GPU_KERNEL(256)
softmax_rescale_kernel(float* sums, const float* sum, const float* target_logit,
                       const float* local_largest, const float* largest, std::int64_t rows) {
  for_each(rows, [=](std::int64_t r) {
    sums[r] = sum[r] * exp(local_largest[r] - largest[r]);
    sums[rows + r] = target_logit[r];
  });
}

void softmax_rescale(Queue& queue, float* sums, const float* sum, const float* target_logit,
                     const float* local_largest, const float* largest, std::int64_t rows) {
  launch(queue, over(rows), softmax_rescale_kernel, sums, sum, target_logit, local_largest, largest,
         rows);
}

GPU_KERNEL(256)
token_loss_kernel(float* loss, float* lse, const float* largest, const float* sum,
                  const float* target_logit, std::int64_t rows) {
  for_each(rows, [=](std::int64_t r) {
    lse[r] = largest[r] + log(sum[r]);
    loss[r] = lse[r] - target_logit[r];
  });
}

void token_loss(Queue& queue, float* loss, float* lse, const float* largest, const float* sum,
                const float* target_logit, std::int64_t rows) {
  launch(queue, over(rows), token_loss_kernel, loss, lse, largest, sum, target_logit, rows);
}

}  // namespace

template <class T>
void set_cross_entropy(Kernels<T>& table) {
  table.softmax_stats = softmax_stats<T>;
  table.cross_entropy_grad = cross_entropy_grad<T>;
  table.classifier = classifier<T>;
  table.softmax_rescale = softmax_rescale;
  table.token_loss = token_loss;
}
TRIREME_GPU_INSTANTIATE(set_cross_entropy);

}  // namespace trireme::gpu
