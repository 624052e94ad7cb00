// Attention of a few new queries against a long cache, as in generation, bound by reading the
// cache. Queries are kept in the order of vector registers; keys are processed sixteen at a time.
#pragma once

#include "backend/cpu/kernels/attention_scratch.h"
#include "backend/cpu/kernels/attention_tile.h"

namespace trireme::cpu::TRIREME_ISA {

template <class T>
class RowAttention {
  using A = Acc<T>;

 public:
  // ctx and, unless it is null, lse of every query and head of the group.
  static void run(const GroupView<T>& view, Rows<T> ctx, A* lse) {
    RowAttention rows(view);
    for (std::int64_t query = 0; query < view.queries; ++query) {
      for (std::int64_t head = 0; head < view.heads(); ++head) {
        rows.run_row(query, head);
        store_row<T>(ctx.row(query) + head * view.head_dim(), rows.s_.ctx, view.head_dim(),
                     A{1} / rows.sum_);
        if (!lse) continue;
        lse[head * view.queries + query] =
            (rows.largest_ + log2(rows.sum_)) * static_cast<A>(ln_of_2);
      }
    }
  }

 private:
  static constexpr int lanes = Vec<A>::lanes;
  static constexpr int keys_at_once = 256;

  struct Scratch {
    alignas(64) A q[max_head_dim], ctx[max_head_dim], scores[keys_at_once];
    alignas(64) A products[16 * 16], sums[16 * 16];
  };

  explicit RowAttention(const GroupView<T>& view)
      : view_(view), s_(scratch_as<Scratch>()), width_(round_up(view.head_dim(), lanes)) {}

  void run_row(std::int64_t query, std::int64_t head) {
    const T* q = view_.q.row(query) + head * view_.head_dim();
    const Vec<A> scale = splat(static_cast<A>(view_.rule.scale * log2_of_e));
    for_vectors<lanes>(view_.head_dim(), [&](std::int64_t d, auto amount) TRIREME_INLINE_LAMBDA {
      store(s_.q + d, load(q + d, amount) * scale);
      store(s_.ctx + d, splat(A{0}));
    });
    place_ = view_.first_query + query;
    slope_ =
        view_.rule.alibi_heads > 0 ? static_cast<A>(alibi_slope(view_, head) * log2_of_e) : A{0};
    largest_ = static_cast<A>(-1e30);
    sum_ = 0;
    const KeyRange range = view_.visible(query);
    for (std::int64_t key = range.begin; key < range.end; key += keys_at_once) {
      const std::int64_t rest = range.end - key;
      run_keys(key, rest < keys_at_once ? rest : keys_at_once);
    }
  }

  void run_keys(std::int64_t first, std::int64_t count) {
    A largest = largest_;
    const std::int64_t padded = round_up(count, 16);
    for (std::int64_t j = 0; j < padded; j += 16) {
      const std::int64_t rest = count - j;
      score_sixteen(s_.scores + j, first + j, rest < 16 ? rest : 16);
    }
    for (std::int64_t j = 0; j < padded; j += lanes) {
      const A block = max_lanes(load(s_.scores + j));
      largest = block > largest ? block : largest;
    }
    const A shrink = exp2(splat(largest_ - largest)).part[0][0];
    Vec<A> sum = splat(A{0});
    for (std::int64_t j = 0; j < padded; j += lanes) {
      const Vec<A> w = exp2(load(s_.scores + j) - splat(largest));
      store(s_.scores + j, w);
      sum += w;
    }
    sum_ = sum_ * shrink + sum_lanes(sum);
    largest_ = largest;
    for (std::int64_t d = 0; d < view_.head_dim(); d += lanes) {
      const std::int64_t rest = view_.head_dim() - d;
      const Vec<A> old = load(s_.ctx + d) * splat(shrink);
      if (rest >= lanes) {
        store(s_.ctx + d, old + weigh(first, count, d, All{}));
      } else {
        store(s_.ctx + d, old + weigh(first, count, d, First{static_cast<int>(rest)}));
      }
    }
  }

  // Sums weight * value for columns d and following.
  template <class Amount>
  TRIREME_INLINE Vec<A> weigh(std::int64_t first, std::int64_t count, std::int64_t d,
                              Amount amount) const {
    Vec<A> sum = splat(A{0});
    for (std::int64_t j = 0; j < count; ++j) {
      sum += splat(s_.scores[j]) * load(view_.v.row(first + j) + d, amount);
    }
    return sum;
  }

  // Sixteen dot products of q with keys; those from `count` on become -infinity.
  void score_sixteen(A* scores, std::int64_t first, std::int64_t count) {
    for (int j = 0; j < 16; ++j) {
      Vec<A> sum = splat(A{0});
      if (j < count) {
        const T* k = view_.k.row(first + j);
        for_vectors<lanes>(view_.head_dim(),
                           [&](std::int64_t d, auto amount) TRIREME_INLINE_LAMBDA {
                             sum += load(s_.q + d) * load(k + d, amount);
                           });
      }
      for (int i = 0; i < 16; i += lanes) store(s_.products + j * 16 + i, i ? splat(A{0}) : sum);
    }
    transpose(s_.sums, 16, s_.products, 16, 16, 16);
    for (int i = 0; i < 16; i += lanes) {
      Vec<A> sum = load(s_.sums + i);
      for (int d = 1; d < 16; ++d) sum += load(s_.sums + d * 16 + i);
      store(scores + i, sum);
    }
    // Queries are pre-multiplied by the scale and by log2(e).
    if (view_.rule.soft_cap > 0)
      cap_scores(scores, static_cast<A>(view_.rule.soft_cap * log2_of_e), 16);
    for (std::int64_t j = 0; slope_ > 0 && j < count; ++j)
      scores[j] += slope_ * static_cast<A>(first + j - place_);
    for (std::int64_t j = count; j < 16; ++j) scores[j] = static_cast<A>(-INFINITY);
  }

  const GroupView<T>& view_;
  Scratch& s_;
  const std::int64_t width_;
  A largest_ = 0, sum_ = 0, slope_ = 0;
  std::int64_t place_ = 0;  // of the query
};

}  // namespace trireme::cpu::TRIREME_ISA
