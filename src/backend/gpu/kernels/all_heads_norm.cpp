// A row of queries, keys and values, of which a block normalises all queries together, and all
// keys.
#include "backend/gpu/kernels/all_heads_norm.h"

#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/partial_sums.h"
#include "backend/gpu/launch.h"
#include "backend/gpu/row_chunks.h"

namespace trireme::gpu {
namespace {

constexpr int threads = 256;

template <class T>
struct AllHeadsArguments {
  T* to;  // y or dx
  const T *x, *dy;
  float* rstd;  // [rows, 2]; written by the forward pass, where it is not null
  const T *query_weight, *key_weight;
  std::int64_t rows;
  int groups, queries_per_group, head_dim;
  float eps;
  bool aligned, aligned_parts;
  std::int64_t chunk_rows;         // of the backward pass
  float *query_parts, *key_parts;  // [chunks, widths of the weights]

  GPU_FN int heads() const { return groups * (queries_per_group + 2); }
  GPU_FN float count(bool keys) const {
    return static_cast<float>(groups * (keys ? 1 : queries_per_group) * head_dim);
  }
};

// Eight columns of a head: where it begins in the row, and its weights among those of its kind.
template <class T>
struct HeadPiece {
  bool is_key, is_value;
  std::int64_t column, weight;
  const T* weights;
  Columns at;

  GPU_FN HeadPiece(const AllHeadsArguments<T>& a, int head, int first) {
    const int in_group = head % (a.queries_per_group + 2), group = head / (a.queries_per_group + 2);
    is_key = in_group == a.queries_per_group;
    is_value = in_group > a.queries_per_group;
    column = std::int64_t{head} * a.head_dim;
    const int number = is_key ? group : group * a.queries_per_group + in_group;
    weight = std::int64_t{number} * a.head_dim;
    weights = (is_key ? a.key_weight : a.query_weight) + (is_value ? 0 : weight);
    at = columns_at(first, a.head_dim, a.aligned);
  }
};

// Calls body(piece) for what falls to this thread: of every row the same.
template <class T, class Body>
GPU_FN void for_pieces(const AllHeadsArguments<T>& a, const Body& body) {
  const int eights = (a.head_dim + 7) / 8;
  for (int i = static_cast<int>(thread_index()); i < a.heads() * eights; i += threads)
    body(HeadPiece<T>(a, i / eights, i % eights * 8));
}

// Of queries and of keys.
struct TwoSums {
  float queries = 0, keys = 0;

  GPU_FN void add(bool is_key, float v) {
    queries += is_key ? 0.0f : v;
    keys += is_key ? v : 0.0f;
  }
  GPU_FN float of(bool is_key) const { return is_key ? keys : queries; }
  GPU_FN void over_block() {
    queries = block_sum<threads>(queries);
    keys = block_sum<threads>(keys);
  }
};

template <class T>
GPU_KERNEL(threads)
all_heads_norm_kernel(const AllHeadsArguments<T> a) {
  const std::int64_t row = block_index().x, offset = row * a.heads() * a.head_dim;
  TwoSums squares;
  for_pieces(a, [&](const HeadPiece<T>& p) {
    if (p.is_value) return;
    const Eight x = load(a.x + offset + p.column, p.at);
    squares.add(p.is_key, sum_of(each([](float v) { return v * v; }, x)));
  });
  squares.over_block();
  const TwoSums scales{1.0f / sqrt(squares.queries / a.count(false) + a.eps),
                       1.0f / sqrt(squares.keys / a.count(true) + a.eps)};
  if (a.rstd && thread_index() < 2)
    a.rstd[2 * row + thread_index()] = scales.of(thread_index() == 1);
  for_pieces(a, [&](const HeadPiece<T>& p) {
    Eight x = load(a.x + offset + p.column, p.at);
    const float scale = scales.of(p.is_key);
    if (!p.is_value)
      x = each([=](float v, float w) { return v * scale * w; }, x, load(p.weights, p.at));
    store(a.to + offset + p.column, p.at, x);
  });
}

// The gradient of one row; adds to the chunk's parts, or begins them.
template <class T>
GPU_FN void grad_row(const AllHeadsArguments<T>& a, std::int64_t row, float* query_part,
                     float* key_part, bool begins) {
  const std::int64_t offset = row * a.heads() * a.head_dim;
  TwoSums dots;
  for_pieces(a, [&](const HeadPiece<T>& p) {
    if (p.is_value) return;
    const Eight x = load(a.x + offset + p.column, p.at), dy = load(a.dy + offset + p.column, p.at);
    dots.add(p.is_key, sum_of(each([](float u, float v, float w) { return u * v * w; }, x, dy,
                                   load(p.weights, p.at))));
  });
  dots.over_block();
  for_pieces(a, [&](const HeadPiece<T>& p) {
    const Eight dy = load(a.dy + offset + p.column, p.at);
    if (p.is_value) return store(a.to + offset + p.column, p.at, dy);
    const Eight x = load(a.x + offset + p.column, p.at), weight = load(p.weights, p.at);
    const float rstd = a.rstd[2 * row + p.is_key];
    const float direction = dots.of(p.is_key) * rstd / a.count(p.is_key);
    float* const part = (p.is_key ? key_part : query_part) + p.weight;
    const Columns part_at = columns_at(p.at.first, p.at.count, a.aligned_parts);
    Eight sum = begins ? zeros() : load(part, part_at), dx;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float unit = x.v[i] * rstd;
      dx.v[i] = (dy.v[i] * weight.v[i] - unit * direction) * rstd;
      sum.v[i] += dy.v[i] * unit;
    }
    store(a.to + offset + p.column, p.at, dx);
    store(part, part_at, sum);
  });
}

// A block takes a chunk of rows.
template <class T>
GPU_KERNEL(threads)
all_heads_norm_grad_kernel(const AllHeadsArguments<T> a) {
  const std::int64_t chunk = block_index().x, first = chunk * a.chunk_rows;
  const std::int64_t end = first + a.chunk_rows < a.rows ? first + a.chunk_rows : a.rows;
  const std::int64_t key_width = std::int64_t{a.groups} * a.head_dim;
  float* const query_part = a.query_parts + chunk * key_width * a.queries_per_group;
  float* const key_part = a.key_parts + chunk * key_width;
  for (std::int64_t row = first; row < end; ++row)
    grad_row(a, row, query_part, key_part, row == first);
}

template <class T>
AllHeadsArguments<T> arguments_of(const HeadNormShape& s, T* to, const T* x, const T* dy,
                                  const T* query_weight, const T* key_weight) {
  AllHeadsArguments<T> a{};
  a.to = to;
  a.x = x;
  a.dy = dy;
  a.query_weight = query_weight;
  a.key_weight = key_weight;
  a.rows = s.rows;
  a.groups = static_cast<int>(s.groups);
  a.queries_per_group = static_cast<int>(s.queries_per_group);
  a.head_dim = static_cast<int>(s.head_dim);
  a.eps = static_cast<float>(s.eps);
  a.aligned = rows_are_aligned(s.head_dim, to, x, dy, query_weight, key_weight);
  return a;
}

}  // namespace

template <class T>
void all_heads_norm(Queue& queue, const HeadNormShape& s, T* y, float* rstd, const T* x,
                    const T* query_weight, const T* key_weight) {
  AllHeadsArguments<T> a = arguments_of<T>(s, y, x, nullptr, query_weight, key_weight);
  a.rstd = rstd;
  launch(queue, one_block_each(s.rows, threads), all_heads_norm_kernel<T>, a);
}

template <class T>
void all_heads_norm_grad(Queue& queue, const HeadNormShape& s, T* dx, float* dquery_weight,
                         float* dkey_weight, bool accumulate, const T* dy, const T* x,
                         const float* rstd, const T* query_weight, const T* key_weight,
                         float* workspace) {
  const RowChunks chunks = norm_grad_chunks(s.rows);
  AllHeadsArguments<T> a = arguments_of<T>(s, dx, x, dy, query_weight, key_weight);
  a.rstd = const_cast<float*>(rstd);  // the backward pass only reads it
  a.chunk_rows = chunks.rows_each;
  a.query_parts = workspace;
  a.key_parts = workspace + chunks.count * s.query_weights();
  a.aligned_parts = rows_are_aligned(s.head_dim, a.query_parts, a.key_parts);
  launch(queue, one_block_each(chunks.count, threads), all_heads_norm_grad_kernel<T>, a);
  add_parts(queue, dquery_weight, accumulate, a.query_parts, chunks.count, s.query_weights());
  add_parts(queue, dkey_weight, accumulate, a.key_parts, chunks.count, s.key_weights());
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot appear in parentheses here.
#define TRIREME_INSTANTIATE(T)                                                               \
  template void all_heads_norm(Queue&, const HeadNormShape&, T*, float*, const T*, const T*, \
                               const T*);                                                    \
  template void all_heads_norm_grad(Queue&, const HeadNormShape&, T*, float*, float*, bool,  \
                                    const T*, const T*, const float*, const T*, const T*, float*);
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(bf16)
TRIREME_INSTANTIATE(f16)
#undef TRIREME_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace trireme::gpu
