// RMSNorm over all queries and over all keys of a row; one block per row. If
// ranks share the heads, one kernel computes a rank's sums and another continues
// with the sums of all ranks.
#include "backend/gpu/kernels/all_heads_norm.h"

#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

constexpr int threads = 256;

// Number of elements of a row that are normalized together on this rank.
template <class T>
GPU_FN float norm_width(const HeadNormArguments<T>& a, bool keys) {
  return static_cast<float>(a.groups * (keys ? 1 : a.queries_per_group) * a.head_dim);
}

// Eight columns of a head: their offset in the row, and their weights within those of the kind.
template <class T>
struct HeadPiece : HeadPlace<T> {
  std::int64_t column, first_weight;
  const T* weights;
  Columns at;

  GPU_FN HeadPiece(const HeadNormArguments<T>& a, int head, int first)
      : HeadPlace<T>(a, head),
        column(std::int64_t{head} * a.head_dim),
        first_weight(std::int64_t{this->is_key ? this->group
                                               : this->group * a.queries_per_group + this->number} *
                     a.head_dim),
        weights(this->weight + (this->is_value ? 0 : first_weight)),
        at(columns_at(first, a.head_dim, a.aligned)) {}
};

// Calls body(piece) for the pieces of this thread, which are the same in every row.
template <class T, class Body>
GPU_FN void for_pieces(const HeadNormArguments<T>& a, const Body& body) {
  const int eights = (a.head_dim + 7) / 8;
  for (int i = static_cast<int>(thread_index()); i < a.heads() * eights; i += threads)
    body(HeadPiece<T>(a, i / eights, i % eights * 8));
}

// Sums over queries and over keys.
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
GPU_FN TwoSums squares_of(const HeadNormArguments<T>& a, std::int64_t offset) {
  TwoSums squares;
  for_pieces(a, [&](const HeadPiece<T>& p) {
    if (p.is_value) return;
    const Eight x = load(a.x + offset + p.column, p.at);
    squares.add(p.is_key, sum_of(each([](float v) { return v * v; }, x)));
  });
  squares.over_block();
  return squares;
}

// Sums of x dy weight, for the gradient.
template <class T>
GPU_FN TwoSums products_of(const HeadNormArguments<T>& a, std::int64_t offset) {
  TwoSums dots;
  for_pieces(a, [&](const HeadPiece<T>& p) {
    if (p.is_value) return;
    const Eight x = load(a.x + offset + p.column, p.at), dy = load(a.dy + offset + p.column, p.at);
    dots.add(p.is_key,
             sum_of(each([one = a.one](float u, float v, float w) { return u * v * (w + one); }, x,
                         dy, load(p.weights, p.at))));
  });
  dots.over_block();
  return dots;
}

template <class T>
GPU_FN TwoSums sums_of_ranks(const HeadNormArguments<T>& a, std::int64_t row) {
  return {a.sums[2 * row], a.sums[2 * row + 1]};
}

template <class T>
GPU_FN void normalize(const HeadNormArguments<T>& a, std::int64_t row, const TwoSums& scales) {
  const std::int64_t offset = row * a.heads() * a.head_dim;
  if (a.rstd && thread_index() < 2)
    a.rstd[2 * row + thread_index()] = scales.of(thread_index() == 1);
  for_pieces(a, [&](const HeadPiece<T>& p) {
    Eight x = load(a.x + offset + p.column, p.at);
    const float scale = scales.of(p.is_key);
    if (!p.is_value)
      x = each([=, one = a.one](float v, float w) { return v * scale * (w + one); }, x,
               load(p.weights, p.at));
    store(a.to + offset + p.column, p.at, x);
  });
}

template <class T>
GPU_KERNEL(threads)
all_heads_norm_kernel(const HeadNormArguments<T> a) {
  const std::int64_t row = block_index().x;
  const TwoSums squares = squares_of(a, row * a.heads() * a.head_dim);
  normalize(a, row,
            {1.0f / sqrt(squares.queries / norm_width(a, false) + a.eps),
             1.0f / sqrt(squares.keys / norm_width(a, true) + a.eps)});
}

template <class T>
GPU_KERNEL(threads)
shared_heads_norm_kernel(const HeadNormArguments<T> a) {
  const std::int64_t row = block_index().x;
  const TwoSums squares = sums_of_ranks(a, row);
  normalize(a, row,
            {1.0f / sqrt(squares.queries / a.all_queries + a.eps),
             1.0f / sqrt(squares.keys / a.all_keys + a.eps)});
}

// Sums squares, or products with dy; keys owned by another rank count in the latter only.
template <class T>
GPU_KERNEL(threads)
shared_heads_sums_kernel(const HeadNormArguments<T> a) {
  const std::int64_t row = block_index().x, offset = row * a.heads() * a.head_dim;
  TwoSums sums = a.dy ? products_of(a, offset) : squares_of(a, offset);
  if (!a.dy && !a.counts_keys) sums.keys = 0;
  if (thread_index() < 2) a.sums[2 * row + thread_index()] = sums.of(thread_index() == 1);
}

// Gradient of one row, given the sums of products and their numbers of elements; adds to the
// chunk's partial sums, or starts them.
template <class T>
GPU_FN void grad_row(const HeadNormArguments<T>& a, std::int64_t row, const TwoSums& sums,
                     const TwoSums& widths, float* query_part, float* key_part, bool begins) {
  const std::int64_t offset = row * a.heads() * a.head_dim;
  for_pieces(a, [&](const HeadPiece<T>& p) {
    const Eight dy = load(a.dy + offset + p.column, p.at);
    if (p.is_value) return store(a.to + offset + p.column, p.at, dy);
    const Eight x = load(a.x + offset + p.column, p.at);
    const Eight weight = each([one = a.one](float w) { return w + one; }, load(p.weights, p.at));
    const float rstd = a.rstd[2 * row + p.is_key];
    const float direction = sums.of(p.is_key) * rstd / widths.of(p.is_key);
    float* const part = (p.is_key ? key_part : query_part) + p.first_weight;
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

// One block per chunk of rows. `shared`: uses the sums of all ranks.
template <bool shared, class T>
GPU_FN void grad_chunk(const HeadNormArguments<T>& a) {
  const std::int64_t chunk = block_index().x, first = chunk * a.chunk_rows;
  const std::int64_t end = first + a.chunk_rows < a.rows ? first + a.chunk_rows : a.rows;
  const std::int64_t key_width = std::int64_t{a.groups} * a.head_dim;
  float* const query_part = a.query_parts + chunk * key_width * a.queries_per_group;
  float* const key_part = a.key_parts + chunk * key_width;
  for (std::int64_t row = first; row < end; ++row) {
    if constexpr (shared) {
      TwoSums sums = sums_of_ranks(a, row);
      if (!a.counts_keys) sums.keys = 0;  // counted in the gradient of the owning rank
      grad_row(a, row, sums, {a.all_queries, a.all_keys}, query_part, key_part, row == first);
    } else {
      grad_row(a, row, products_of(a, row * a.heads() * a.head_dim),
               {norm_width(a, false), norm_width(a, true)}, query_part, key_part, row == first);
    }
  }
}

template <class T>
GPU_KERNEL(threads)
all_heads_norm_grad_kernel(const HeadNormArguments<T> a) {
  grad_chunk<false>(a);
}

template <class T>
GPU_KERNEL(threads)
shared_heads_norm_grad_kernel(const HeadNormArguments<T> a) {
  grad_chunk<true>(a);
}

}  // namespace

template <class T>
void all_heads_norm(Queue& queue, const HeadNormArguments<T>& a) {
  if (a.sums) return launch(queue, one_block_each(a.rows, threads), shared_heads_norm_kernel<T>, a);
  launch(queue, one_block_each(a.rows, threads), all_heads_norm_kernel<T>, a);
}

template <class T>
void all_heads_sums(Queue& queue, const HeadNormArguments<T>& a) {
  launch(queue, one_block_each(a.rows, threads), shared_heads_sums_kernel<T>, a);
}

template <class T>
void all_heads_norm_grad(Queue& queue, const HeadNormArguments<T>& a, std::int64_t chunks) {
  if (a.sums)
    return launch(queue, one_block_each(chunks, threads), shared_heads_norm_grad_kernel<T>, a);
  launch(queue, one_block_each(chunks, threads), all_heads_norm_grad_kernel<T>, a);
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot appear in parentheses here.
#define TRIREME_INSTANTIATE(T)                                       \
  template void all_heads_norm(Queue&, const HeadNormArguments<T>&); \
  template void all_heads_sums(Queue&, const HeadNormArguments<T>&); \
  template void all_heads_norm_grad(Queue&, const HeadNormArguments<T>&, std::int64_t);
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(bf16)
TRIREME_INSTANTIATE(f16)
#undef TRIREME_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace trireme::gpu
