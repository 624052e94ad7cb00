// Attention without matrix units: for fp32, which they would round, and for small heads, which
// would be mostly padding. A wave owns a query or a key, and each of its lanes computes the scores
// of one row of the other side. Plain rather than fast.
#include "backend/gpu/kernels/attention.h"
#include "backend/gpu/kernels/eight.h"

namespace trireme::gpu {
namespace {

constexpr int plain_threads = 128, most_head_dim = 256;

// A wave's row of results: lane l has columns l, l + wave_width and so on.
struct Row {
  static constexpr int width = most_head_dim / wave_width;
  float of[width] = {};

  template <class T>
  GPU_FN void add(float weight, const T* row, int head_dim) {
#pragma unroll
    for (int i = 0; i < width; ++i)
      if (const int column = lane() + i * wave_width; column < head_dim)
        of[i] += weight * to_float(row[column]);
  }
  GPU_FN void scale(float factor) {
#pragma unroll
    for (float& x : of) x *= factor;
  }
  template <class T>
  GPU_FN void store(T* row, int head_dim) const {
#pragma unroll
    for (int i = 0; i < width; ++i)
      if (const int column = lane() + i * wave_width; column < head_dim)
        row[column] = from_float<T>(of[i]);
  }
};

template <class T>
GPU_FN float dot(const T* x, const T* y, const Attention<T>& a) {
  float sum = 0;
  for (int c = 0; c < a.head_dim; c += 8) {
    const Columns at = columns_at(c, a.head_dim, a.in_packs);
    const Eight u = load(x, at), v = load(y, at);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += u.v[i] * v.v[i];
  }
  return sum;
}

// The base-2 exponent of a query's score with a key, both by position, and the slope of a cap
// there.
struct PlainScore {
  float value, slope;

  template <class T>
  GPU_FN PlainScore(const Attention<T>& a, int head, const T* query, const T* key, int ahead) {
    float product = dot(query, key, a);
    if (a.rule.alibi_heads > 0) product += a.slope(head) * static_cast<float>(ahead);
    if (a.cap > 0) {
      const auto exponent = Exponents<true>(a).of(product);
      value = exponent.value;
      slope = exponent.slope;
    } else {
      value = Exponents<false>(a).of(product).value;
      slope = 1;
    }
  }
};

template <class T>
GPU_FN float kept_factor(const Attention<T>& a, int head, std::int64_t sample, int query, int key) {
  if (!a.dropout.active) return 1;
  const AttentionMask mask(a.dropout, a.rule.first_head + head, sample);
  return mask.kept(query, key / 8) >> key % 8 & 1 ? a.dropout.multiplier : 0.0f;
}

// A value of each lane of a wave, for all lanes to read.
class LaneValues {
 public:
  // All lanes of the wave participate, in both.
  GPU_FN explicit LaneValues(float mine) {
    sync_wave();  // the values before have been read
    values()[thread_index()] = mine;
    sync_wave();
  }
  GPU_FN float operator[](int lane) const { return values()[wave_index() * wave_width + lane]; }

 private:
  struct Values {
    float of_thread[plain_threads];
  };
  GPU_FN static float* values() { return shared_memory<Values>().of_thread; }
};

// The wave's number in the grid, or at least `count` if it has none.
GPU_FN std::int64_t wave_in_grid() {
  return std::int64_t{block_index().x} * (plain_threads / wave_width) + wave_index();
}
template <class... Parameters, class... Arguments>
void launch_waves(Queue& queue, std::int64_t count, void (*kernel)(Parameters...),
                  const Arguments&... arguments) {
  launch(queue,
         one_block_each(ceil_div(count * widest_wave, std::int64_t{plain_threads}), plain_threads),
         kernel, arguments...);
}

template <class T>
GPU_KERNEL(plain_threads)
plain_forward_kernel(const Attention<T> a, T* ctx, float* lse) {
  const std::int64_t row = wave_in_grid();
  if (row >= std::int64_t{a.batch} * a.heads() * a.queries) return;
  const auto query = static_cast<int>(row % a.queries);
  const auto head = static_cast<int>(row / a.queries % a.heads());
  const auto sample = static_cast<int>(row / a.queries / a.heads());
  const Visibility seen = a.visibility(sample);
  const KeyRange sees = seen.of(query);
  const int position = seen.first_query + query;
  const T* const q = a.q + a.q_offset(sample, head) + query * a.q_pitch;
  const std::int64_t offset = a.kv_offset(sample, head / a.queries_per_group);
  float largest = -1e30f, total = 0;
  Row sums;
  for (int first = sees.begin / wave_width * wave_width; first < sees.end; first += wave_width) {
    const int key = first + lane();
    float score = -std::numeric_limits<float>::infinity();
    if (key >= sees.begin && key < sees.end)
      score = PlainScore(a, head, q, a.k + offset + key * a.kv_pitch, key - position).value;
    const float before = largest, of_all = wave_max(score);
    largest = of_all > before ? of_all : before;
    const float rescale = exp2(before - largest);
    float weight = exp2(score - largest);
    total = total * rescale + wave_sum(weight);
    sums.scale(rescale);
    if (a.dropout.active) weight *= kept_factor(a, head, a.sample_id(sample), position, key);
    const LaneValues weights(weight);
    for (int i = 0; i < wave_width; ++i) {
      if (first + i >= sees.begin && first + i < sees.end)
        sums.add(weights[i], a.v + offset + (first + i) * a.kv_pitch, a.head_dim);
    }
  }
  sums.scale(total == 0 ? 0 : 1 / total);
  sums.store(ctx + a.ctx_offset(sample, head) + query * a.ctx_pitch(), a.head_dim);
  if (lse && lane() == 0)
    lse[a.lse_offset(sample, head) + query] =
        total == 0 ? -std::numeric_limits<float>::infinity() : (largest + log2(total)) * ln_of_2;
}

// A pair of the backward pass: the weight that dropout scaled, and the gradient of the score.
struct PlainPair {
  float weight = 0, dscore = 0;

  PlainPair() = default;
  template <class T>
  GPU_FN PlainPair(const Attention<T>& a, const Gradients<T>& g, int sample, int head, int query,
                   int key) {
    const std::int64_t row = (std::int64_t{sample} * a.heads() + head) * a.queries + query;
    const std::int64_t of_key =
        sample * a.kv_sample + head / a.queries_per_group * a.kv_group + key * a.kv_pitch;
    const PlainScore score(a, head, a.q + a.q_offset(sample, head) + query * a.q_pitch,
                           a.k + of_key, key - query);
    const float w = exp2(score.value - g.lse[row] * log2_of_e);
    const float factor =
        a.dropout.active ? kept_factor(a, head, a.dropout.sample_ids[sample], query, key) : 1.0f;
    const float dweight =
        dot(g.dctx + a.ctx_offset(sample, head) + query * a.ctx_pitch(), a.v + of_key, a);
    weight = w * factor;
    dscore = w * (dweight * factor - g.delta[row]) * score.slope;
  }
};

template <class T>
GPU_KERNEL(plain_threads)
plain_queries_kernel(const Attention<T> a, const Gradients<T> g) {
  const std::int64_t row = wave_in_grid();
  if (row >= std::int64_t{a.batch} * g.chunks * a.heads() * g.chunk) return;
  const auto head = static_cast<int>(row / g.chunk % a.heads());
  const auto part = static_cast<int>(row / g.chunk / a.heads() % g.chunks);
  const auto sample = static_cast<int>(row / g.chunk / a.heads() / g.chunks);
  const int query = g.first(part) + static_cast<int>(row % g.chunk);
  const KeyRange sees = a.whole_visibility(sample).of(query);
  const int group = head / a.queries_per_group;
  const T* const keys = a.k + sample * a.kv_sample + group * a.kv_group;
  Row sums;
  for (int first = sees.begin / wave_width * wave_width; first < sees.end; first += wave_width) {
    const int key = first + lane();
    PlainPair pair;
    if (key >= sees.begin && key < sees.end) pair = PlainPair(a, g, sample, head, query, key);
    const LaneValues dscores(pair.dscore);
    for (int i = 0; i < wave_width; ++i) {
      if (first + i >= sees.begin && first + i < sees.end)
        sums.add(dscores[i], keys + (first + i) * a.kv_pitch, a.head_dim);
    }
  }
  sums.scale(a.scale);
  sums.store(g.dq + (g.row_of_zero(sample, part) + query) * a.q_pitch + group * a.q_group +
                 std::int64_t{head % a.queries_per_group} * a.head_dim,
             a.head_dim);
}

template <class T>
GPU_KERNEL(plain_threads)
plain_keys_kernel(const Attention<T> a, const Gradients<T> g) {
  const std::int64_t row = wave_in_grid();
  if (row >= std::int64_t{a.batch} * g.chunks * a.groups * g.chunk) return;
  const auto group = static_cast<int>(row / g.chunk % a.groups);
  const auto part = static_cast<int>(row / g.chunk / a.groups % g.chunks);
  const auto sample = static_cast<int>(row / g.chunk / a.groups / g.chunks);
  const int key = g.first(part) + static_cast<int>(row % g.chunk);
  const Visibility seen = a.whole_visibility(sample);
  const int begin = seen.causal ? key / wave_width * wave_width : 0;
  Row dk, dv;
  for (int i = 0; i < a.queries_per_group && key < seen.keys; ++i) {
    const int head = group * a.queries_per_group + i;
    const T* const q = a.q + a.q_offset(sample, head);
    const T* const dctx = g.dctx + a.ctx_offset(sample, head);
    for (int first = begin; first < a.queries; first += wave_width) {
      const int query = first + lane();
      const KeyRange sees = seen.of(query);
      PlainPair pair;
      if (key >= sees.begin && key < sees.end) pair = PlainPair(a, g, sample, head, query, key);
      // Pairs that are not seen have zeros.
      const LaneValues weights(pair.weight);
      for (int j = 0; j < wave_width; ++j)
        if (weights[j] != 0) dv.add(weights[j], dctx + (first + j) * a.ctx_pitch(), a.head_dim);
      const LaneValues dscores(pair.dscore);
      for (int j = 0; j < wave_width; ++j)
        if (dscores[j] != 0) dk.add(dscores[j], q + (first + j) * a.q_pitch, a.head_dim);
    }
  }
  dk.scale(a.scale);
  const std::int64_t to = (g.row_of_zero(sample, part) + key) * a.kv_pitch + group * a.kv_group;
  dk.store(g.dk + to, a.head_dim);
  dv.store(g.dv + to, a.head_dim);
}

}  // namespace

template <class T>
void run_plain_forward(Queue& queue, const Attention<T>& a, T* ctx, float* lse) {
  launch_waves(queue, std::int64_t{a.batch} * a.groups * a.queries_per_group * a.queries,
               plain_forward_kernel<T>, a, ctx, lse);
}
template void run_plain_forward(Queue&, const Attention<float>&, float*, float*);
template void run_plain_forward(Queue&, const Attention<bf16>&, bf16*, float*);
template void run_plain_forward(Queue&, const Attention<f16>&, f16*, float*);

template <class T>
void run_plain_backward(Queue& queue, const Attention<T>& a, const Gradients<T>& g) {
  const std::int64_t rows = std::int64_t{a.batch} * g.chunks * a.groups * g.chunk;
  launch_waves(queue, rows, plain_keys_kernel<T>, a, g);
  launch_waves(queue, rows * a.queries_per_group, plain_queries_kernel<T>, a, g);
}
template void run_plain_backward(Queue&, const Attention<float>&, const Gradients<float>&);
template void run_plain_backward(Queue&, const Attention<bf16>&, const Gradients<bf16>&);
template void run_plain_backward(Queue&, const Attention<f16>&, const Gradients<f16>&);

}  // namespace trireme::gpu
