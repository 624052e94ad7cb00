// Attention sinks on the GPU, applied to the result of attention without them; see the formulas in
// backend/cpu/sinks.cpp.
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

// The rows of a context, and the place of lse that each has for a head.
struct SinkRows {
  std::int64_t rows, groups, queries_per_group, head_dim, chunks, length;

  explicit SinkRows(const AttentionShape& s)
      : groups(s.groups),
        queries_per_group(s.queries_per_group),
        head_dim(s.head_dim),
        chunks(s.cut.chunk > 0 ? 2 : 1),
        length(s.cut.chunk > 0 ? s.cut.chunk : s.seq) {
    rows = s.batch * chunks * length;
  }

  GPU_FN std::int64_t heads() const { return groups * queries_per_group; }
  GPU_FN std::int64_t statistic(std::int64_t row, std::int64_t head) const {
    const std::int64_t chunk = row / length;
    const std::int64_t group = chunk / chunks * groups + head / queries_per_group;
    return ((group * chunks + chunk % chunks) * queries_per_group + head % queries_per_group) *
               length +
           row % length;
  }
};

// log(exp(a) + exp(b))
GPU_FN float log_of_sum(float a, float b) {
  const float largest = a > b ? a : b;
  return largest + log(exp(a - largest) + exp(b - largest));
}

template <class T>
GPU_KERNEL(256)
shrink_context_kernel(const SinkRows r, T* ctx, const float* lse, const T* sinks) {
  for_each(r.rows * r.heads() * r.head_dim, [=](std::int64_t i) {
    const std::int64_t head = i / r.head_dim % r.heads(), row = i / r.head_dim / r.heads();
    const float own = lse[r.statistic(row, head)];
    const float keeps = exp(own - log_of_sum(own, to_float(sinks[head])));
    ctx[i] = from_float<T>(keeps * to_float(ctx[i]));
  });
}

template <class T>
GPU_KERNEL(256)
add_sinks_kernel(const SinkRows r, float* lse, const T* sinks) {
  for_each(r.rows * r.heads(), [=](std::int64_t i) {
    const std::int64_t head = i % r.heads();
    float& own = lse[r.statistic(i / r.heads(), head)];
    own = log_of_sum(own, to_float(sinks[head]));
  });
}

template <class T>
void attention_sink(Queue& queue, const AttentionShape& shape, T* ctx, float* lse, const T* sinks) {
  const SinkRows rows(shape);
  launch(queue, over(rows.rows * shape.ctx_cols()), shrink_context_kernel<T>, rows, ctx, lse,
         sinks);
  launch(queue, over(rows.rows * shape.heads()), add_sinks_kernel<T>, rows, lse, sinks);
}

template <class T>
GPU_KERNEL(256)
sink_terms_kernel(const SinkRows r, float* terms, const T* ctx, const float* lse, const T* dctx,
                  const T* sinks) {
  for_each(r.rows * r.heads(), [=](std::int64_t i) {
    const std::int64_t head = i % r.heads();
    float product = 0;
    for (std::int64_t d = i * r.head_dim; d < (i + 1) * r.head_dim; ++d)
      product += to_float(ctx[d]) * to_float(dctx[d]);
    terms[i] = -exp(to_float(sinks[head]) - lse[r.statistic(i / r.heads(), head)]) * product;
  });
}

template <class T>
void attention_sink_terms(Queue& queue, const AttentionShape& shape, float* terms, const T* ctx,
                          const float* lse, const T* dctx, const T* sinks) {
  const SinkRows rows(shape);
  launch(queue, over(rows.rows * shape.heads()), sink_terms_kernel<T>, rows, terms, ctx, lse, dctx,
         sinks);
}

}  // namespace

template <class T>
void set_sinks(Kernels<T>& table) {
  table.attention_sink = attention_sink<T>;
  table.attention_sink_terms = attention_sink_terms<T>;
}
TRIREME_GPU_INSTANTIATE(set_sinks);

}  // namespace trireme::gpu
