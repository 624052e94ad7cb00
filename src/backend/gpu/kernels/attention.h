// Attention and its gradients as their kernels see them: positions of rows, visible keys of a
// query, the exponents that scores become, and the functions that choose kernels.
#pragma once

#include <limits>

#include "backend/gpu/kernels/dropout.h"
#include "backend/gpu/kernels/tangent.h"
#include "backend/gpu/launch.h"
#include "backend/gpu/row_chunks.h"
#include "backend/gpu/staged.h"
#include "base/divide.h"

namespace trireme::gpu {

inline constexpr float log2_of_e = 1.44269504f, ln_of_2 = 0.693147181f;

// The keys [begin, end) visible to a query.
struct KeyRange {
  int begin, end;
};

struct Visibility {
  const std::int32_t* begins;  // of the sample's queries, or null
  int first_query;             // position of query 0
  int queries, keys;
  bool causal;
  int window;      // number of latest keys visible to a query; 0: all
  bool in_chunks;  // instead: the size of chunks, of which a query sees its own

  // Returns whether the first key may be invisible to a query.
  GPU_FN bool begins_late() const { return begins || window > 0; }
  GPU_FN int begin_of(int query) const {
    const int begin = begins ? begins[query] : 0, position = first_query + query;
    if (window == 0) return begin;
    const int newest = in_chunks ? position / window * window : position + 1 - window;
    return newest > begin ? newest : begin;
  }
  GPU_FN KeyRange of(int query) const {
    if (query >= queries) return {0, 0};
    const int past = first_query + query + 1;
    return {begin_of(query), causal && past < keys ? past : keys};
  }
};

// What a query sees if it sees all keys up to its own position.
struct DenseVisibility {
  static constexpr const std::int32_t* begins = nullptr;
  static constexpr bool causal = true;
  int first_query, queries, keys;

  GPU_FN static constexpr bool begins_late() { return false; }
  GPU_FN static constexpr int begin_of(int) { return 0; }
  GPU_FN KeyRange of(int query) const {
    if (query >= queries) return {0, 0};
    const int past = first_query + query + 1;
    return {0, past < keys ? past : keys};
  }
};

// What kernels are compiled for: dense causal attention, nearly all of a training, which the other
// features would cost registers; everything but soft caps; and soft caps.
enum class Form : std::uint8_t { dense, general, capped };

// An attention as its kernels see it. Positions of one sample are `pitch` elements apart. If a
// context-parallel rank has two chunks of each sequence, each chunk is a sample of `queries`
// positions, and the two chunks of a sequence share its keys.
template <class T>
struct Attention {
  const T *q, *k, *v;  // of sample 0, head 0
  std::int64_t q_pitch, kv_pitch, q_sample, kv_sample, q_group, kv_group;
  int batch, queries, keys, groups, queries_per_group, head_dim;
  bool in_packs;
  bool cached;  // lengths are cache lengths before the queries; else those of samples
  const std::int32_t *first_visible, *lengths;
  DropoutSite dropout;
  int chunks;     // chunks that share the keys of a sequence: 1 or 2
  int firsts[2];  // positions of the first queries of the chunks
  AttentionRule rule;
  // Constants of the rule for the kernels: scale, scale x log2(e), soft_cap, and scale / soft_cap.
  float scale, exponent_scale, cap, cap_part;

  GPU_FN int sequence(int sample) const { return sample / chunks; }
  bool is_dense() const {
    return rule.causal && rule.window == 0 && rule.alibi_heads == 0 && !dropout.active &&
           !first_visible && !lengths && cap == 0 && in_packs;
  }
  template <Form form>
  GPU_FN bool has_slopes() const {
    return form == Form::general && rule.alibi_heads > 0;
  }
  template <Form form>
  GPU_FN bool drops() const {
    return form != Form::dense && dropout.active;
  }
  GPU_FN Matrix<T> matrix(const T* data, std::int64_t pitch, int rows) const {
    return {data, pitch, rows, head_dim, in_packs};
  }
  template <Form form>
  GPU_FN auto visibility_for(int sample) const {
    if constexpr (form == Form::dense) {
      return DenseVisibility{sample % chunks == 0 ? firsts[0] : firsts[1], queries, keys};
    } else {
      return visibility(sample);
    }
  }
  GPU_FN Visibility visibility(int sample) const {
    const int first = sample % chunks == 0 ? firsts[0] : firsts[1];
    Visibility seen{
        first_visible ? first_visible + std::int64_t{sequence(sample)} * keys + first : nullptr,
        first,
        queries,
        keys,
        rule.causal,
        static_cast<int>(rule.window),
        rule.chunks};
    if (cached) {
      seen.first_query = lengths[sample];
      seen.keys = lengths[sample] + queries;
    } else if (lengths) {
      seen.keys = lengths[sample];
    }
    return seen;
  }
  // Avoids a select between two loads, which clang turns into one load through scratch memory.
  GPU_FN int length_of(int sample) const {
    const int length = lengths ? lengths[sample] : std::numeric_limits<int>::max();
    return length < keys ? length : keys;
  }
  // Of whole sequences without cache and window, as in the backward pass.
  template <Form form>
  GPU_FN auto whole_visibility_for(int sample) const {
    if constexpr (form == Form::dense) {
      return DenseVisibility{0, queries, keys};
    } else {
      return whole_visibility(sample);
    }
  }
  GPU_FN Visibility whole_visibility(int sample) const {
    return {first_visible ? first_visible + std::int64_t{sample} * keys : nullptr,
            0,
            queries,
            length_of(sample),
            rule.causal,
            0,
            false};
  }
  GPU_FN std::int64_t q_offset(int sample, int head) const {
    return sample * q_sample + head / queries_per_group * q_group +
           std::int64_t{head % queries_per_group} * head_dim;
  }
  GPU_FN std::int64_t kv_offset(int sample, int group) const {
    return sequence(sample) * kv_sample + group * kv_group;
  }
  GPU_FN int heads() const { return groups * queries_per_group; }
  // ALiBi slope of a head: added to its unscaled scores per position that a key is ahead of the
  // query (backend/cpu/kernels/attention_view.h).
  GPU_FN float slope(int head) const {
    const auto number = static_cast<int>(rule.first_head) + head;
    int power = 1;
    while (2 * power <= static_cast<int>(rule.alibi_heads)) power *= 2;
    const float exponent = number < power ? -8.0f * static_cast<float>(number + 1)
                                          : -4.0f * static_cast<float>(2 * (number - power) + 1);
    return exp2(exponent / static_cast<float>(power)) / scale;
  }
  // Offset of a head's log-sum-exps: [sequences, groups, chunks,
  // queries per group, queries].
  GPU_FN std::int64_t lse_offset(int sample, int head) const {
    const std::int64_t group = std::int64_t{sequence(sample)} * groups + head / queries_per_group;
    return ((group * chunks + sample % chunks) * queries_per_group + head % queries_per_group) *
           queries;
  }
  GPU_FN std::int64_t sample_id(int sample) const { return dropout.sample_ids[sequence(sample)]; }
  GPU_FN std::int64_t ctx_pitch() const { return std::int64_t{heads()} * head_dim; }
  GPU_FN std::int64_t ctx_offset(int sample, int head) const {
    return sample * std::int64_t{queries} * ctx_pitch() + std::int64_t{head} * head_dim;
  }
};

template <class T>
Attention<T> attention_of(const AttentionShape& s, const T* qkv) {
  const T* const k = qkv + s.queries_per_group * s.head_dim;
  const std::int64_t columns = s.qkv_cols(), group = (s.queries_per_group + 2) * s.head_dim;
  const auto narrow = [](std::int64_t x) { return static_cast<int>(x); };
  return {.q = qkv,
          .k = k,
          .v = k + s.head_dim,
          .q_pitch = columns,
          .kv_pitch = columns,
          .q_sample = s.seq * columns,
          .kv_sample = s.seq * columns,
          .q_group = group,
          .kv_group = group,
          .batch = narrow(s.batch),
          .queries = narrow(s.seq),
          .keys = narrow(s.seq),
          .groups = narrow(s.groups),
          .queries_per_group = narrow(s.queries_per_group),
          .head_dim = narrow(s.head_dim),
          .in_packs = lies_in_packs(qkv, columns, s.head_dim),
          .cached = false,
          .first_visible = s.first_visible,
          .lengths = s.lengths,
          .dropout = DropoutSite(s.dropout),
          .chunks = 1,
          .firsts = {0, 0},
          .rule = s,
          .scale = static_cast<float>(s.scale),
          .exponent_scale = static_cast<float>(s.scale) * log2_of_e,
          .cap = static_cast<float>(s.soft_cap),
          .cap_part = s.soft_cap > 0 ? static_cast<float>(s.scale / s.soft_cap) : 0.0f};
}

// View of a rank's two chunks of each sequence: qkv is the rank's; the caller sets the keys.
template <class T>
Attention<T> chunks_of(const AttentionShape& s, const T* qkv) {
  Attention<T> a = attention_of(s, qkv);
  a.batch *= 2;
  a.queries = static_cast<int>(s.cut.chunk);
  a.q_sample = s.cut.chunk * a.q_pitch;
  a.chunks = 2;
  for (int i = 0; i < 2; ++i) a.firsts[i] = static_cast<int>(s.cut.first[i]);
  return a;
}

// Gradients of attention: inputs of the backward pass besides those of the forward, and its
// outputs: of all positions or, if a rank has two chunks of each sequence, of `chunk` positions
// starting at each of `firsts`.
template <class T>
struct Gradients {
  const T* dctx;
  const float *lse, *delta;  // [batch, heads, queries]; delta is the sum of ctx * dctx
  T *dq, *dk, *dv;           // laid out like q, k and v, without the omitted positions
  int chunks, chunk;
  int firsts[2];
  // With one chunk, sums over every 16 rows of the gradients: [batch, tiles of queries, columns of
  // qkv]. Null: not wanted.
  float* sums = nullptr;

  // Those of a sample's columns from `column` on.
  GPU_FN float* sums_of(const Attention<T>& a, int sample, std::int64_t column) const {
    return sums ? sums + attention_grad_chunks(sample, a.queries) * a.q_pitch + column : nullptr;
  }
  GPU_FN int first(int part) const { return part == 0 ? firsts[0] : firsts[1]; }
  // Row of dq, dk or dv that position 0 of the sequence would have.
  GPU_FN std::int64_t row_of_zero(int sample, int part) const {
    return (std::int64_t{sample} * chunks + part) * chunk - first(part);
  }
};

// Converts query-key products to base-2 exponents. Without a cap it needs no extra register.
template <bool capped>
class Exponents {
 public:
  struct Exponent {
    float value, slope;  // slope: derivative of the cap
  };

  template <class T>
  GPU_FN explicit Exponents(const Attention<T>& a)
      : factor_(capped ? a.cap_part : a.exponent_scale), cap_(a.cap * log2_of_e) {}

  GPU_FN Exponent of(float product) const {
    if constexpr (capped) {
      const float part = tangent(product * factor_);
      return {cap_ * part, 1.0f - part * part};
    } else {
      return {product * factor_, 1.0f};
    }
  }

 private:
  float factor_, cap_;
};

// Plain attention, for any type and head_dim up to 256: writes ctx and, if it is not null, lse, in
// the order of lse_offset(); and the gradients.
template <class T>
void run_plain_forward(Queue&, const Attention<T>&, T* ctx, float* lse);
template <class T>
void run_plain_backward(Queue&, const Attention<T>&, const Gradients<T>&);

// Attention by matrix units for 16-bit types and larger heads, else plain.
inline constexpr int largest_plain_head_dim = 32;
template <class T>
void run_forward(Queue&, const Attention<T>&, T* ctx, float* lse);
template <class T>
void run_backward(Queue&, const Attention<T>&, const Gradients<T>&);

}  // namespace trireme::gpu
