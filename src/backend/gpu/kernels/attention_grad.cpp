// Attention backward, including context parallelism.
#include "backend/gpu/kernels/attention_keys.h"
#include "backend/gpu/kernels/attention_queries.h"
#include "backend/gpu/kernels/bias_grad.h"
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/partial_sums.h"
#include "backend/gpu/kernels/table.h"

namespace trireme::gpu {

template <Form form, class T>
void launch_backward(Queue& queue, const Attention<T>& a, const Gradients<T>& g) {
  launch_keys<form>(queue, a, g);
  launch_queries<form>(queue, a, g);
}

// Whether the kernels on matrix units compute it.
template <class T>
bool has_tiles(const Attention<T>& a) {
  return !std::is_same_v<T, float> && a.head_dim > largest_plain_head_dim;
}

template <class T>
void run_backward(Queue& queue, const Attention<T>& a, const Gradients<T>& g) {
  if constexpr (!std::is_same_v<T, float>) {
    if (has_tiles(a))
      return a.is_dense() ? launch_backward<Form::dense>(queue, a, g)
             : a.cap > 0  ? run_capped_backward(queue, a, g)
                          : launch_backward<Form::general>(queue, a, g);
  }
  run_plain_backward(queue, a, g);
}

namespace {

constexpr int lanes_of_row = 8, delta_threads = 256;

// delta, in the order of lse_offset(): sums of ctx * dctx over the columns of each head.
template <class T>
GPU_KERNEL(delta_threads)
delta_kernel(const Attention<T> a, float* delta, const T* ctx, const T* dctx, bool aligned) {
  const std::int64_t row =
      (std::int64_t{block_index().x} * delta_threads + thread_index()) / lanes_of_row;
  const std::int64_t rows = std::int64_t{a.batch} * a.heads() * a.queries;
  float sum = 0;
  if (row < rows) {
    const auto query = static_cast<int>(row % a.queries);
    const auto head = static_cast<int>(row / a.queries % a.heads());
    const auto sample = static_cast<int>(row / a.queries / a.heads());
    const std::int64_t at = a.ctx_offset(sample, head) + query * a.ctx_pitch();
    for (int i = lane() % lanes_of_row * 8; i < a.head_dim; i += lanes_of_row * 8) {
      const Columns columns = columns_at(i, a.head_dim, aligned);
      const Eight x = load(ctx + at, columns), y = load(dctx + at, columns);
      sum += sum_of(each([](float u, float v) { return u * v; }, x, y));
    }
  }
#pragma unroll
  for (int mask = 1; mask < lanes_of_row; mask *= 2) sum += shuffle_xor(sum, mask);
  if (row >= rows || lane() % lanes_of_row != 0) return;
  const auto query = static_cast<int>(row % a.queries);
  const auto head = static_cast<int>(row / a.queries % a.heads());
  delta[a.lse_offset(static_cast<int>(row / a.queries / a.heads()), head) + query] = sum;
}

template <class T>
void make_delta(Queue& queue, const Attention<T>& a, float* delta, const T* ctx, const T* dctx) {
  const std::int64_t rows = std::int64_t{a.batch} * a.groups * a.queries_per_group * a.queries;
  launch(queue,
         one_block_each(ceil_div(rows * lanes_of_row, std::int64_t{delta_threads}), delta_threads),
         delta_kernel<T>, a, delta, ctx, dctx,
         a.head_dim % 8 == 0 &&
             rows_are_aligned(a.groups * a.queries_per_group * a.head_dim, ctx, dctx));
}

template <class T>
void attention_grad(Queue& queue, const AttentionShape& shape, const AttentionGradOperands<T>& o) {
  Attention<T> a = attention_of(shape, o.qkv);
  a.in_packs = a.in_packs && lies_in_packs(o.dctx, shape.ctx_cols(), shape.head_dim);
  auto* const delta = static_cast<float*>(o.workspace);
  float* const sums = delta + shape.batch * shape.heads() * shape.seq;
  make_delta(queue, a, delta, o.ctx, o.dctx);
  T* const dk = o.dqkv + (a.k - a.q);
  const bool tiled = has_tiles(a);
  run_backward(queue, a,
               Gradients<T>{o.dctx,
                            o.lse,
                            delta,
                            o.dqkv,
                            dk,
                            dk + shape.head_dim,
                            1,
                            a.queries,
                            {0, 0},
                            o.dbias && tiled ? sums : nullptr});
  if (!o.dbias) return;
  const std::int64_t columns = shape.qkv_cols();
  if (tiled)
    add_parts(queue, o.dbias, o.accumulate, sums, attention_grad_chunks(shape.batch, shape.seq),
              columns);
  else
    bias_grad(queue, o.dbias, o.accumulate, o.dqkv, shape.batch * shape.seq, columns, sums);
}

template <class T>
void attention_delta(Queue& queue, const AttentionShape& shape, float* delta, const T* ctx,
                     const T* dctx) {
  make_delta(queue, chunks_of(shape, ctx), delta, ctx, dctx);
}

// All tensors but dqkv cover whole sequences.
template <class T>
void context_attention_grad(Queue& queue, const AttentionShape& shape, T* dqkv, const T* qkv,
                            const T* dctx, const float* lse, const float* delta, void*) {
  Attention<T> a = attention_of(shape, qkv);
  a.in_packs = a.in_packs && lies_in_packs(dctx, shape.ctx_cols(), shape.head_dim);
  T* const dk = dqkv + (a.k - a.q);
  run_backward(
      queue, a,
      Gradients<T>{dctx,
                   lse,
                   delta,
                   dqkv,
                   dk,
                   dk + shape.head_dim,
                   2,
                   static_cast<int>(shape.cut.chunk),
                   {static_cast<int>(shape.cut.first[0]), static_cast<int>(shape.cut.first[1])}});
}

}  // namespace

template <class T>
void set_attention_grad(Kernels<T>& table) {
  table.attention_grad = attention_grad<T>;
  table.attention_delta = attention_delta<T>;
  table.context_attention_grad = context_attention_grad<T>;
}
TRIREME_GPU_INSTANTIATE(set_attention_grad);

}  // namespace trireme::gpu
