// Permutation of rows to their experts and back, and the gating and mixing of rows. One block
// per row, or per taken row.
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

constexpr int threads = 128;

// Loops over the columns of a row assigned to this thread, eight at a time.
template <class Body>
GPU_FN void for_columns(std::int64_t cols, bool aligned, const Body& body) {
  for (std::int64_t c = 8 * thread_index(); c < cols; c += 8 * threads)
    body(columns_at(c, cols, aligned));
}

// Zeroes the rows of y from offsets[experts] on.
template <class T>
GPU_KERNEL(threads)
clear_rest_kernel(T* y, const std::int32_t* offsets, std::int64_t cols, std::int64_t experts,
                  bool aligned) {
  const std::int64_t row = block_index().x;
  if (row < offsets[experts]) return;
  for_columns(cols, aligned, [=](const Columns& at) { store(y + row * cols, at, zeros()); });
}

template <class T>
void clear_rest(Queue& queue, const PermuteShape& s, T* y, const std::int32_t* offsets) {
  launch(queue, one_block_each(s.taken, threads), clear_rest_kernel<T>, y, offsets, s.cols,
         s.experts, rows_are_aligned(s.cols, y));
}

template <class T>
GPU_KERNEL(threads)
permute_rows_kernel(T* y, const T* x, const float* weights, const std::int32_t* places,
                    std::int64_t cols, std::int64_t top_k, bool aligned) {
  const std::int64_t row = block_index().x;
  for_columns(cols, aligned, [=](const Columns& at) {
    const Eight values = load(x + row * cols, at);
    for (std::int64_t c = row * top_k; c < (row + 1) * top_k; ++c) {
      if (places[c] < 0) continue;
      const float weight = weights ? weights[c] : 1.0f;
      store(y + places[c] * cols, at, each([=](float v) { return weight * v; }, values));
    }
  });
}

template <class T>
void permute_rows(Queue& queue, const PermuteShape& s, T* y, const T* x, const float* weights,
                  const std::int32_t* places, const std::int32_t* offsets) {
  clear_rest(queue, s, y, offsets);
  launch(queue, one_block_each(s.rows, threads), permute_rows_kernel<T>, y, x, weights, places,
         s.cols, s.top_k, rows_are_aligned(s.cols, y, x));
}

// weights may be null: all are 1.
template <class T>
GPU_KERNEL(threads)
combine_rows_kernel(T* y, const T* x, const float* weights, const std::int32_t* places,
                    std::int64_t cols, std::int64_t top_k, bool aligned) {
  const std::int64_t row = block_index().x;
  for_columns(cols, aligned, [=](const Columns& at) {
    Eight sum = zeros();
    for (std::int64_t c = row * top_k; c < (row + 1) * top_k; ++c) {
      if (places[c] < 0) continue;
      const float weight = weights ? weights[c] : 1.0f;
      sum = each([=](float s, float v) { return s + weight * v; }, sum,
                 load(x + places[c] * cols, at));
    }
    store(y + row * cols, at, sum);
  });
}

template <class T>
void combine_rows(Queue& queue, T* y, const T* x, const float* weights, const std::int32_t* places,
                  std::int64_t rows, std::int64_t cols, std::int64_t top_k) {
  launch(queue, one_block_each(rows, threads), combine_rows_kernel<T>, y, x, weights, places, cols,
         top_k, rows_are_aligned(cols, y, x));
}

template <class T>
void unpermute_rows(Queue& queue, T* y, const T* x, const std::int32_t* places, std::int64_t rows,
                    std::int64_t cols, std::int64_t top_k) {
  combine_rows(queue, y, x, static_cast<const float*>(nullptr), places, rows, cols, top_k);
}

// dx = factor * dy for a row; returns the dot product of dy and x to all threads.
template <class T>
GPU_FN float scale_and_multiply(T* dx, const T* dy, const T* x, float factor, std::int64_t cols,
                                bool aligned) {
  float dot = 0;
  for_columns(cols, aligned, [&](const Columns& at) {
    const Eight grad = load(dy, at);
    dot += sum_of(each([](float p, float q) { return p * q; }, grad, load(x, at)));
    store(dx, at, each([=](float v) { return factor * v; }, grad));
  });
  return block_sum<threads>(dot);
}

template <class T>
GPU_KERNEL(threads)
combine_rows_grad_kernel(T* dx, float* dweights, const T* dy, const T* x, const float* weights,
                         const std::int32_t* places, std::int64_t cols, std::int64_t top_k,
                         bool aligned) {
  const std::int64_t row = block_index().x;
  for (std::int64_t c = row * top_k; c < (row + 1) * top_k; ++c) {
    float dot = 0;
    if (places[c] >= 0) {
      const std::int64_t at = places[c] * cols;
      dot = scale_and_multiply(dx + at, dy + row * cols, x + at, weights[c], cols, aligned);
    }
    if (thread_index() == 0) dweights[c] = dot;
  }
}

template <class T>
void combine_rows_grad(Queue& queue, const PermuteShape& s, const CombineGradOperands<T>& o) {
  clear_rest(queue, s, o.dx, o.offsets);
  launch(queue, one_block_each(s.rows, threads), combine_rows_grad_kernel<T>, o.dx, o.dweights,
         o.dy, o.x, o.weights, o.places, s.cols, s.top_k,
         rows_are_aligned(s.cols, o.dx, o.dy, o.x));
}

GPU_FN float sigmoid(float x) {
  return 1.0f / (1.0f + exp(-x));
}

template <class T>
GPU_KERNEL(threads)
gate_rows_kernel(T* y, const T* x, const float* gates, std::int64_t cols, bool aligned) {
  const std::int64_t row = block_index().x;
  const float open = sigmoid(gates[row]);
  for_columns(cols, aligned, [=](const Columns& at) {
    store(y + row * cols, at, each([=](float v) { return open * v; }, load(x + row * cols, at)));
  });
}

template <class T>
void gate_rows(Queue& queue, T* y, const T* x, const float* gates, std::int64_t rows,
               std::int64_t cols) {
  launch(queue, one_block_each(rows, threads), gate_rows_kernel<T>, y, x, gates, cols,
         rows_are_aligned(cols, y, x));
}

template <class T>
GPU_KERNEL(threads)
gate_rows_grad_kernel(T* dx, float* dgates, const T* dy, const T* x, const float* gates,
                      std::int64_t cols, bool aligned) {
  const std::int64_t row = block_index().x, at = row * cols;
  const float open = sigmoid(gates[row]);
  const float dot = scale_and_multiply(dx + at, dy + at, x + at, open, cols, aligned);
  if (thread_index() == 0) dgates[row] = open * (1 - open) * dot;
}

template <class T>
void gate_rows_grad(Queue& queue, T* dx, float* dgates, const T* dy, const T* x, const float* gates,
                    std::int64_t rows, std::int64_t cols) {
  launch(queue, one_block_each(rows, threads), gate_rows_grad_kernel<T>, dx, dgates, dy, x, gates,
         cols, rows_are_aligned(cols, dx, dy, x));
}

// The first of two shares that sum to 1; for the other one, swap the logits.
template <class T>
GPU_FN float share_of(T own, T other) {
  return sigmoid(to_float(own) - to_float(other));
}

template <class T>
GPU_KERNEL(threads)
mix_rows_kernel(T* y, const T* a, const T* b, const T* logits, std::int64_t cols, bool aligned) {
  const std::int64_t row = block_index().x, offset = row * cols;
  const T* const own = logits + 2 * row;
  const float first = share_of(own[0], own[1]), second = share_of(own[1], own[0]);
  for_columns(cols, aligned, [=](const Columns& at) {
    store(y + offset, at,
          each([=](float p, float q) { return first * p + second * q; }, load(a + offset, at),
               load(b + offset, at)));
  });
}

template <class T>
void mix_rows(Queue& queue, T* y, const T* a, const T* b, const T* logits, std::int64_t rows,
              std::int64_t cols) {
  launch(queue, one_block_each(rows, threads), mix_rows_kernel<T>, y, a, b, logits, cols,
         rows_are_aligned(cols, y, a, b));
}

template <class T>
GPU_KERNEL(threads)
mix_rows_grad_kernel(T* da, T* db, T* dlogits, const T* dy, const T* a, const T* b, const T* logits,
                     std::int64_t cols, bool aligned) {
  const std::int64_t row = block_index().x, offset = row * cols;
  const T* const own = logits + 2 * row;
  const float first = share_of(own[0], own[1]), second = share_of(own[1], own[0]);
  float dot = 0;
  for_columns(cols, aligned, [&](const Columns& at) {
    const Eight grad = load(dy + offset, at);
    dot += sum_of(each([](float g, float p, float q) { return g * (p - q); }, grad,
                       load(a + offset, at), load(b + offset, at)));
    store(da + offset, at, each([=](float g) { return first * g; }, grad));
    store(db + offset, at, each([=](float g) { return second * g; }, grad));
  });
  const float moved = first * second * block_sum<threads>(dot);
  if (thread_index() != 0) return;
  dlogits[2 * row] = from_float<T>(moved);
  dlogits[2 * row + 1] = from_float<T>(-moved);
}

template <class T>
void mix_rows_grad(Queue& queue, T* da, T* db, T* dlogits, const T* dy, const T* a, const T* b,
                   const T* logits, std::int64_t rows, std::int64_t cols) {
  launch(queue, one_block_each(rows, threads), mix_rows_grad_kernel<T>, da, db, dlogits, dy, a, b,
         logits, cols, rows_are_aligned(cols, da, db, dy, a, b));
}

}  // namespace

template <class T>
void set_experts(Kernels<T>& table) {
  table.permute_rows = permute_rows<T>;
  table.unpermute_rows = unpermute_rows<T>;
  table.combine_rows = combine_rows<T>;
  table.combine_rows_grad = combine_rows_grad<T>;
  table.gate_rows = gate_rows<T>;
  table.gate_rows_grad = gate_rows_grad<T>;
  table.mix_rows = mix_rows<T>;
  table.mix_rows_grad = mix_rows_grad<T>;
}
TRIREME_GPU_INSTANTIATE(set_experts);

}  // namespace trireme::gpu
