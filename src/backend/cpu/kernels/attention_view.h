// One group of attention heads of one sample: its rows, and the visible keys of each query.
#pragma once

#include "backend/cpu/kernels/simd.h"
#include "base/divide.h"

namespace trireme::cpu::TRIREME_ISA {

inline constexpr std::int64_t max_head_dim = 256;

// Strided rows of head_dim elements.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;
  T* row(std::int64_t i) const { return data + i * stride; }
  // Rows of the same shape, shifted right by `columns`.
  Rows right_by(std::int64_t columns) const { return {data + columns, stride}; }
};

// Prefetches the cache lines of one row.
template <_mm_hint hint, class T>
TRIREME_INLINE void prefetch_row(const T* row, std::int64_t count) {
  const char* bytes = reinterpret_cast<const char*>(row);
  for (std::int64_t i = 0; i < count * static_cast<std::int64_t>(sizeof(T)); i += 64) {
    _mm_prefetch(bytes + i, hint);
  }
}

// The keys [begin, end) visible to a query.
struct KeyRange {
  std::int64_t begin, end;
};

// A group: query heads that share one key and one value head (GQA). Head h of q, ctx and their
// gradients is h * head_dim columns right of head 0.
template <class T>
struct GroupView {
  AttentionRule rule;                 // of the attention that the group belongs to
  std::int64_t queries;               // rows of q
  std::int64_t first_query;           // position of row 0 of q within the sample
  std::int64_t keys;                  // visible positions lie in [first_key, keys)
  const std::int32_t* first_visible;  // [queries] or null
  Rows<const T> q, k, v;
  const Dropout* dropout;           // null: none
  std::int64_t sample, first_head;  // global numbers, for dropout and ALiBi
  std::int64_t first_key = 0;
  double* largest = nullptr;  // by head: raised to the largest score; null: not requested

  std::int64_t heads() const { return rule.queries_per_group; }
  std::int64_t head_dim() const { return rule.head_dim; }

  KeyRange visible(std::int64_t query) const {
    std::int64_t begin = first_visible ? first_visible[query] : 0;
    std::int64_t end = first_query + query + 1;
    if (rule.window > 0) {
      const std::int64_t first =
          rule.chunks ? (end - 1) / rule.window * rule.window : end - rule.window;
      if (first > begin) begin = first;
    }
    if (begin < first_key) begin = first_key;
    if (!rule.causal || end > keys) end = keys;
    return {begin, end < begin ? begin : end};
  }
};

// ALiBi slope of a head, added to its scaled scores for each position that a key is ahead of the
// query: 2^(-8 / n), its square and so on for n = 2^k heads; further heads get every second slope
// of twice as many (Press et al. 2022, and the authors' code).
template <class T>
inline double alibi_slope(const GroupView<T>& view, std::int64_t head_of_group) {
  const std::int64_t head = view.first_head + head_of_group;
  std::int64_t power = 1;
  while (2 * power <= view.rule.alibi_heads) power *= 2;
  const auto heads = static_cast<double>(power);
  return head < power ? ::exp2(-8.0 * static_cast<double>(head + 1) / heads)
                      : ::exp2(-4.0 * static_cast<double>(2 * (head - power) + 1) / heads);
}

// Visible keys of a tile of at most `lanes` queries: per lane, and common to all or any of them.
template <class A, int lanes>
struct TileVisibility {
  alignas(64) A begin[lanes], end[lanes];  // in the arithmetic type, to compare in lanes
  KeyRange any;                            // keys outside are visible to no query
  KeyRange all;                            // keys inside are visible to every query

  template <class T>
  void set(const GroupView<T>& view, std::int64_t first, std::int64_t count) {
    any = {INT64_MAX, 0};
    all = {0, INT64_MAX};
    for (int lane = 0; lane < lanes; ++lane) {
      begin[lane] = end[lane] = 0;
      if (lane >= count) continue;
      const KeyRange range = view.visible(first + lane);
      begin[lane] = static_cast<A>(range.begin);
      end[lane] = static_cast<A>(range.end);
      all.begin = range.begin > all.begin ? range.begin : all.begin;
      all.end = range.end < all.end ? range.end : all.end;
      if (range.begin == range.end) continue;
      any.begin = range.begin < any.begin ? range.begin : any.begin;
      any.end = range.end > any.end ? range.end : any.end;
    }
    if (any.begin > any.end) any.begin = any.end;
  }

  bool sees_any_of(std::int64_t first, std::int64_t last) const {
    return first < any.end && last > any.begin;
  }
  bool sees_all_of(std::int64_t first, std::int64_t last) const {
    return first >= all.begin && last <= all.end;
  }
};

}  // namespace trireme::cpu::TRIREME_ISA
