// RMSNorm of queries and keys per head, and its gradient. Several lanes of a wave share a head and
// hold eight elements each.
#include "backend/gpu/kernels/all_heads_norm.h"
#include "backend/gpu/kernels/partial_sums.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"
#include "backend/gpu/row_chunks.h"

namespace trireme::gpu {
namespace {

constexpr int block_threads = 256;

// One head of one row, and this lane's part of it.
template <class T>
struct Head : HeadPlace<T> {
  std::int64_t row;
  bool exists;
  std::int64_t offset, statistic;
  Columns at;

  GPU_FN Head(const HeadNormArguments<T>& a, std::int64_t index, int first_column)
      : Head(a, index / a.heads(), static_cast<int>(index % a.heads()), first_column) {}

 private:
  GPU_FN Head(const HeadNormArguments<T>& a, std::int64_t at_row, int head, int first_column)
      : HeadPlace<T>(a, head),
        row(at_row),
        exists(row < a.rows),
        offset((row * a.heads() + head) * a.head_dim),
        statistic(row * a.groups * (a.queries_per_group + 1) + head - this->group),
        at(columns_at(first_column, exists ? a.head_dim : 0, a.aligned && exists)) {}
};

template <int lanes>
GPU_FN float over_lanes(float v) {
#pragma unroll
  for (int mask = lanes / 2; mask > 0; mask /= 2) v += shuffle_xor(v, mask);
  return v;
}

template <class T, int lanes>
GPU_KERNEL(block_threads)
head_norm_kernel(const HeadNormArguments<T> a) {
  const int thread = static_cast<int>(thread_index());
  const std::int64_t index =
      std::int64_t{block_index().x} * (block_threads / lanes) + thread / lanes;
  const Head<T> head(a, index, thread % lanes * 8);
  Eight x = load(a.x + head.offset, head.at);
  float squares = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) squares += x.v[i] * x.v[i];
  const float scale =
      1.0f / sqrt(over_lanes<lanes>(squares) / static_cast<float>(a.head_dim) + a.eps);
  if (!head.exists) return;
  if (!head.is_value) {
    const float one = a.one;
    x = each([=](float v, float w) { return v * scale * (w + one); }, x,
             load(head.weight, head.at));
    if (a.rstd && thread % lanes == 0) a.rstd[head.statistic] = scale;
  }
  store(a.to + head.offset, head.at, x);
}

template <int lanes>
struct HeadSums {
  float of[block_threads / lanes][lanes * 8];
};

// parts[column] = sum over the units of a block, in their order.
template <int lanes>
GPU_FN void store_sums(float* parts, const Eight& mine, int head_dim) {
  const int thread = static_cast<int>(thread_index());
  auto& shared = shared_memory<HeadSums<lanes>>();
  sync_block();  // the previous contents have been read
#pragma unroll
  for (int i = 0; i < 8; ++i) shared.of[thread / lanes][thread % lanes * 8 + i] = mine.v[i];
  sync_block();
  if (thread >= head_dim) return;
  float total = 0;
  for (int unit = 0; unit < block_threads / lanes; ++unit) total += shared.of[unit][thread];
  parts[std::int64_t{block_index().x} * head_dim + thread] = total;
}

// One block per chunk of rows, whose units take the heads in turn.
template <class T, int lanes>
GPU_KERNEL(block_threads)
head_norm_grad_kernel(const HeadNormArguments<T> a) {
  constexpr int units = block_threads / lanes;
  const int thread = static_cast<int>(thread_index());
  const std::int64_t first = block_index().x * a.chunk_rows;
  const std::int64_t rows = first + a.chunk_rows < a.rows ? a.chunk_rows : a.rows - first;
  const std::int64_t count = rows * a.heads();
  Eight dquery = zeros(), dkey = zeros();
  for (std::int64_t turn = 0; turn < count; turn += units) {
    const std::int64_t in_chunk = turn + thread / lanes;
    const Head<T> head(a, in_chunk < count ? first * a.heads() + in_chunk : a.rows * a.heads(),
                       thread % lanes * 8);
    const Eight x = load(a.x + head.offset, head.at), dy = load(a.dy + head.offset, head.at);
    const Eight weight =
        each([one = a.one](float w) { return w + one; }, load(head.weight, head.at));
    float dot = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) dot += dy.v[i] * weight.v[i] * x.v[i];
    dot = over_lanes<lanes>(dot);
    if (!head.exists) continue;
    Eight dx = dy;
    if (!head.is_value) {
      const float rstd = a.rstd[head.statistic];
      const float direction = dot * rstd / static_cast<float>(a.head_dim);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float unit = x.v[i] * rstd;
        dx.v[i] = (dy.v[i] * weight.v[i] - unit * direction) * rstd;
        dquery.v[i] += head.is_key ? 0.0f : dy.v[i] * unit;
        dkey.v[i] += head.is_key ? dy.v[i] * unit : 0.0f;
      }
    }
    store(a.to + head.offset, head.at, dx);
  }
  store_sums<lanes>(a.query_parts, dquery, a.head_dim);
  store_sums<lanes>(a.key_parts, dkey, a.head_dim);
}

// Calls body.operator()<lanes>() with the number of lanes for a head of at most 256 elements.
template <class Body>
void with_lanes(std::int64_t head_dim, const Body& body) {
  if (head_dim <= 64)
    body.template operator()<8>();
  else if (head_dim <= 128)
    body.template operator()<16>();
  else
    body.template operator()<32>();
}

template <class T>
void head_norm(Queue& queue, const HeadNormShape& s, T* y, float* rstd, const T* x,
               const T* query_weight, const T* key_weight, const float* sums) {
  HeadNormArguments<T> a(s, y, x, nullptr, query_weight, key_weight);
  a.rstd = rstd;
  a.sums = const_cast<float*>(sums);  // only read here
  if (s.all_heads) return all_heads_norm(queue, a);
  with_lanes(s.head_dim, [&]<int lanes>() {
    constexpr int units = block_threads / lanes;
    const std::int64_t heads = s.rows * s.groups * (s.queries_per_group + 2);
    launch(queue, one_block_each((heads + units - 1) / units, block_threads),
           head_norm_kernel<T, lanes>, a);
  });
}

template <class T>
void head_norm_grad(Queue& queue, const HeadNormShape& s, const HeadNormGradOperands<T>& o) {
  const RowChunks chunks = norm_grad_chunks(s.rows);
  HeadNormArguments<T> a(s, o.dx, o.x, o.dy, o.query_weight, o.key_weight);
  a.rstd = const_cast<float*>(o.rstd);  // the backward pass only reads these
  a.sums = const_cast<float*>(o.sums);
  a.chunk_rows = chunks.rows_each;
  a.query_parts = o.workspace;
  a.key_parts = o.workspace + chunks.count * s.query_weights();
  a.aligned_parts = rows_are_aligned(s.head_dim, a.query_parts, a.key_parts);
  if (s.all_heads) {
    all_heads_norm_grad(queue, a, chunks.count);
  } else {
    with_lanes(s.head_dim, [&]<int lanes>() {
      launch(queue, one_block_each(chunks.count, block_threads), head_norm_grad_kernel<T, lanes>,
             a);
    });
  }
  if (o.dquery_weight)
    add_parts(queue, o.dquery_weight, o.accumulate, a.query_parts, chunks.count, s.query_weights());
  if (o.dkey_weight)
    add_parts(queue, o.dkey_weight, o.accumulate, a.key_parts, chunks.count, s.key_weights());
}

template <class T>
void head_sums(Queue& queue, const HeadNormShape& s, float* sums, const T* x, const T* dy,
               const T* query_weight, const T* key_weight) {
  HeadNormArguments<T> a(s, nullptr, x, dy, query_weight, key_weight);
  a.sums = sums;
  all_heads_sums(queue, a);
}

}  // namespace

template <class T>
void set_head_norm(Kernels<T>& table) {
  table.head_norm = head_norm<T>;
  table.head_norm_grad = head_norm_grad<T>;
  table.head_sums = head_sums<T>;
}
TRIREME_GPU_INSTANTIATE(set_head_norm);

}  // namespace trireme::gpu
