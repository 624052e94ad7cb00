// One row of a router: its scores, and the experts they select. One block per row; thread t handles
// the experts t, t + routing_threads and so on.
#pragma once

#include <bit>

#include "backend/gpu/language.h"
#include "backend/gpu/launch.h"
#include "backend/kernels.h"

namespace trireme::gpu {

inline constexpr int routing_threads = 64;

// Statistics of a softmax over all logits.
struct SoftmaxStats {
  float largest, sum;
};

class RoutedRow {
 public:
  static std::size_t shared_bytes(const RouterShape& s) {
    return static_cast<std::size_t>(s.experts) * (2 * sizeof(float) + 1) +
           static_cast<std::size_t>(s.groups) * (sizeof(float) + 1) +
           2 * static_cast<std::size_t>(s.top_k > s.top_groups ? s.top_k : s.top_groups) *
               sizeof(std::int32_t);
  }

  GPU_FN RoutedRow(const RouterShape& shape, const float* logits)
      : s_(shape),
        logits_(logits),
        scores_(dynamic_shared_memory<float>()),
        values_(scores_ + shape.experts),
        sums_(values_ + shape.experts),
        picked_(reinterpret_cast<std::int32_t*>(sums_ + shape.groups)),
        chosen_(picked_ + most_picked()),
        taken_(reinterpret_cast<std::uint8_t*>(chosen_ + most_picked())),
        open_(taken_ + shape.experts) {}

  template <class Body>
  GPU_FN void for_experts(const Body& body) const {
    for (int e = thread(); e < s_.experts; e += routing_threads) body(e);
  }
  template <class Body>
  GPU_FN void for_choices(const Body& body) const {
    for (int j = thread(); j < s_.top_k; j += routing_threads) body(j);
  }
  GPU_FN float score(int expert) const { return scores_[expert]; }
  GPU_FN float logit(int expert) const { return logits_[expert]; }
  GPU_FN std::int32_t chosen(int j) const { return chosen_[j]; }
  // Scratch for one number per expert, free once the selection is done.
  GPU_FN float& value(int expert) { return values_[expert]; }

  // All threads of the block must call the following functions.

  // Computes values: the logits, or their sigmoids.
  GPU_FN void make_scores() {
    if (s_.sigmoid) {
      for_experts([&](int e) { values_[e] = scores_[e] = 1.0f / (1.0f + exp(-logits_[e])); });
    } else {
      const SoftmaxStats stats = softmax();
      for_experts([&](int e) {
        values_[e] = logits_[e];
        scores_[e] = exp(logits_[e] - stats.largest) / stats.sum;
      });
    }
    sync_block();
  }
  GPU_FN SoftmaxStats softmax() const {
    float largest = -__builtin_inff(), sum = 0;
    for_experts([&](int e) { largest = logits_[e] > largest ? logits_[e] : largest; });
    largest = block_max<routing_threads>(largest);
    for_experts([&](int e) { sum += exp(logits_[e] - largest); });
    return {largest, block_sum<routing_threads>(sum)};
  }

  // Selects the top_k experts by value, from the best groups if `grouped`. `biased`: values are
  // scores with a bias.
  GPU_FN void choose(bool grouped, bool biased = false) {
    grouped = grouped && s_.groups > 1;
    const int size = static_cast<int>(s_.experts / s_.groups);
    if (grouped) {
      sum_groups(size, s_.sigmoid || biased ? values_ : scores_);
      pick(static_cast<int>(s_.top_groups), sums_, open_, static_cast<int>(s_.groups),
           [](int) { return true; });
    }
    pick(static_cast<int>(s_.top_k), values_, taken_, static_cast<int>(s_.experts),
         [&](int e) { return !grouped || open_[e / size]; });
  }

  // Weight of choice j from scores, before the common factor.
  GPU_FN float share_of_scores(int j) const { return scores_[chosen_[j]] / divisor(); }
  GPU_FN float divisor() const {
    if (!s_.normalize || s_.top_k == 1) return 1;
    float sum = 0;
    for (int j = 0; j < s_.top_k; ++j) sum += scores_[chosen_[j]];
    return sum + 1e-20f;
  }
  // Same, from the softmax over the chosen experts.
  GPU_FN float share_of_logits(int j) const {
    float largest = -__builtin_inff(), sum = 0;
    for (int i = 0; i < s_.top_k; ++i)
      largest = logits_[chosen_[i]] > largest ? logits_[chosen_[i]] : largest;
    for (int i = 0; i < s_.top_k; ++i) sum += exp(logits_[chosen_[i]] - largest);
    return exp(logits_[chosen_[j]] - largest) / sum;
  }
  GPU_FN float weight(int j) const {
    const bool by_logits = s_.normalize && !s_.sigmoid;
    return (by_logits ? share_of_logits(j) : share_of_scores(j)) * static_cast<float>(s_.scaling);
  }

  // Restores an earlier selection.
  GPU_FN void set_chosen(const std::int32_t* chosen) {
    for_choices([&](int j) { chosen_[j] = chosen[j]; });
    sync_block();
  }

 private:
  GPU_FN static int thread() { return static_cast<int>(thread_index()); }
  GPU_FN std::int64_t most_picked() const {
    return s_.top_k > s_.top_groups ? s_.top_k : s_.top_groups;
  }

  // Sort key: larger for larger values and, among equal ones, for smaller numbers.
  GPU_FN static std::uint64_t rank(float value, int number) {
    const auto bits = std::bit_cast<std::uint32_t>(value + 0.0f);  // equal for both zeros
    const std::uint32_t rising = bits >> 31 ? ~bits : bits | 0x80000000u;
    return std::uint64_t{rising} << 32 | ~static_cast<std::uint32_t>(number);
  }

  // Writes the indices of the `count` largest allowed values, ascending, to chosen_; ties go to the
  // first. Marks each of them.
  template <class Allowed>
  GPU_FN void pick(int count, const float* values, std::uint8_t* marks, int among,
                   const Allowed& allowed) {
    for (int i = thread(); i < among; i += routing_threads) marks[i] = 0;
    for (int n = 0; n < count; ++n) {
      std::uint64_t best = 0;
      for (int i = thread(); i < among; i += routing_threads) {
        if (marks[i] || !allowed(i)) continue;
        const std::uint64_t mine = rank(values[i], i);
        best = mine > best ? mine : best;
      }
      best = block_max<routing_threads>(best);
      const auto winner = static_cast<int>(~static_cast<std::uint32_t>(best));
      if (winner % routing_threads == thread()) marks[winner] = 1;
      if (thread() == 0) picked_[n] = winner;
    }
    sync_block();
    for (int n = thread(); n < count; n += routing_threads) {
      int smaller = 0;
      for (int i = 0; i < count; ++i) smaller += picked_[i] < picked_[n] ? 1 : 0;
      chosen_[smaller] = picked_[n];
    }
    sync_block();
  }

  // Sums the best scores of each group, as many as a group may contribute.
  GPU_FN void sum_groups(int size, const float* scores) {
    const int each = static_cast<int>(s_.top_k / s_.top_groups), count = each < size ? each : size;
    for (int g = thread(); g < s_.groups; g += routing_threads) {
      std::uint8_t* const marks = taken_ + g * size;
      const float* const values = scores + g * size;
      for (int e = 0; e < size; ++e) marks[e] = 0;
      for (int n = 0; n < count; ++n) {
        int best = -1;
        for (int e = 0; e < size; ++e)
          if (!marks[e] && (best < 0 || values[e] > values[best])) best = e;
        marks[best] = 1;
      }
      float sum = 0;
      for (int e = 0; e < size; ++e) sum += marks[e] ? values[e] : 0.0f;
      sums_[g] = sum;
    }
    sync_block();
  }

  const RouterShape& s_;
  const float* const logits_;
  // Pointers to shared memory.
  float *const scores_, *const values_, *const sums_;
  std::int32_t *const picked_, *const chosen_;
  std::uint8_t *const taken_, *const open_;
};

// One block per row.
inline Launch over_rows(const RouterShape& s) {
  Launch size = one_block_each(s.rows, routing_threads);
  size.shared_bytes = RoutedRow::shared_bytes(s);
  return size;
}

}  // namespace trireme::gpu
