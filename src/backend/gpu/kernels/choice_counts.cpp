// Counts of the experts' choices, and the updates derived from them for the next step. Counts are
// integers, so the order in which blocks add to them is irrelevant.
#include "backend/gpu/kernels/choice_counts.h"

#include "backend/gpu/kernels/routed_row.h"
#include "backend/gpu/kernels/table.h"

namespace trireme::gpu {
namespace {

constexpr int threads = 256;

// Units of rows whose choices are counted separately; the first one started before row 0.
struct Units {
  std::int64_t count, rows, first_row;
  GPU_FN std::int64_t of(std::int64_t row) const { return (first_row + row) / rows; }
};

// places may be null: all choices then count.
template <class Count>
GPU_KERNEL(threads)
count_chosen_kernel(const RouterShape s, const Units units, Count* counts,
                    const std::int32_t* chosen, const std::int32_t* places) {
  for_each(s.rows * s.top_k, [=](std::int64_t i) {
    if (places && places[i] < 0) return;
    atomic_add(counts + units.of(i / s.top_k) * s.experts + chosen[i], Count{1});
  });
}

template <class Count>
GPU_KERNEL(routing_threads)
count_plain_kernel(const RouterShape s, const Units units, Count* counts, const float* logits) {
  const std::int64_t row = block_index().x;
  RoutedRow r(s, logits + row * s.experts);
  r.make_scores();
  r.choose(false);
  r.for_choices(
      [&](int j) { atomic_add(counts + units.of(row) * s.experts + r.chosen(j), Count{1}); });
}

template <class Count>
void clear(Queue& queue, const RouterShape& s, const Units& units, Count* counts) {
  queue.fill(counts, 0, units.count * s.experts * static_cast<std::int64_t>(sizeof *counts));
}

// plain: `chosen` is by plain score.
template <class Count>
void count_plain(Queue& queue, const RouterShape& s, const Units& units, Count* counts, bool plain,
                 const float* logits, const std::int32_t* chosen) {
  clear(queue, s, units, counts);
  if (plain) {
    launch(queue, over(s.rows * s.top_k, threads), count_chosen_kernel<Count>, s, units, counts,
           chosen, nullptr);
  } else {
    launch(queue, over_rows(s), count_plain_kernel<Count>, s, units, counts, logits);
  }
}

void routed_tokens(Queue& queue, const RouterShape& s, const RouterLosses& losses,
                   std::int64_t units, bool plain, std::int64_t* counts, const float* logits,
                   const std::int32_t* chosen) {
  count_plain(queue, s, {units, losses.unit_rows, losses.first_row}, counts, plain, logits, chosen);
}

// --- destinations of counts ---

// Runs as one block.
GPU_KERNEL(threads)
add_totals_kernel(const RouterShape s, const std::int32_t* counts, const StepBlock* block,
                  std::int32_t layer) {
  if (!block->experts) return;
  std::int64_t* const kept =
      reinterpret_cast<std::int64_t*>(block->experts + 1) + layer * (block->most_experts + 1);
  std::int32_t all = 0;
  for (int e = static_cast<int>(thread_index()); e < s.experts; e += threads) {
    kept[e] += counts[e];
    all += counts[e];
  }
  all = block_sum<threads>(all);
  if (thread_index() == 0) kept[s.experts] += s.rows * s.top_k - all;
}

// sums (+)= counts, in the form in which gradients store them.
GPU_KERNEL(threads)
add_counts_kernel(float* sums, bool accumulate, const std::int32_t* counts, std::int64_t experts,
                  const StepBlock* block) {
  const double unit = choice_unit * block->loss_scale;
  for_each(experts, [=](std::int64_t e) {
    const auto count = static_cast<float>(static_cast<double>(counts[e]) * unit);
    sums[e] = accumulate ? sums[e] + count : count;
  });
}

void add_counts(Queue& queue, const RouterShape& s, float* sums, bool accumulate,
                const std::int32_t* counts, const StepBlock* block) {
  launch(queue, over(s.experts, threads), add_counts_kernel, sums, accumulate, counts, s.experts,
         block);
}

// --- updates for the next step ---

GPU_FN double sum_of_choices(const float* choices, std::int64_t experts) {
  double sum = 0;
  for (std::int64_t e = 0; e < experts; ++e) sum += static_cast<double>(choices[e]);
  return sum;
}

template <class T>
GPU_KERNEL(threads)
update_router_bias_kernel(float* master, T* compute, const float* choices, double rate,
                          std::int64_t experts) {
  const double sum = sum_of_choices(choices, experts);
  for_each(experts, [=](std::int64_t e) {
    // Avoids the division of a mean, so that equal loads compare equal.
    const double missing = sum - static_cast<double>(choices[e]) * static_cast<double>(experts);
    if (missing != 0) master[e] += static_cast<float>(missing > 0 ? rate : -rate);
    if (compute) compute[e] = from_float<T>(master[e]);
  });
}

template <class T>
void update_router_bias(Queue& queue, float* master, T* compute, const float* choices, double rate,
                        std::int64_t experts) {
  launch(queue, over(experts, threads), update_router_bias_kernel<T>, master, compute, choices,
         rate, experts);
}

template <class T>
GPU_KERNEL(threads)
update_router_load_kernel(float* master, T* compute, const float* choices, std::int64_t experts) {
  const double sum = sum_of_choices(choices, experts);
  for_each(experts, [=](std::int64_t e) {
    const double load = static_cast<double>(choices[e]) * static_cast<double>(experts) / sum;
    master[e] = static_cast<float>(load);
    if (compute) compute[e] = from_float<T>(master[e]);
  });
}

template <class T>
void update_router_load(Queue& queue, float* master, T* compute, const float* choices,
                        std::int64_t experts) {
  launch(queue, over(experts, threads), update_router_load_kernel<T>, master, compute, choices,
         experts);
}

}  // namespace

void count_kept(Queue& queue, const RouterShape& s, std::int32_t* scratch, float* dbias,
                bool accumulate, const std::int32_t* chosen, const std::int32_t* places,
                const StepBlock* block, std::int32_t layer) {
  const Units one{1, s.rows, 0};
  clear(queue, s, one, scratch);
  launch(queue, over(s.rows * s.top_k, threads), count_chosen_kernel<std::int32_t>, s, one, scratch,
         chosen, places);
  launch(queue, one_block_each(1, threads), add_totals_kernel, s, scratch, block, layer);
  if (dbias) add_counts(queue, s, dbias, accumulate, scratch, block);
}

void count_load(Queue& queue, const RouterShape& s, std::int32_t* scratch, float* dload,
                bool accumulate, bool plain, const float* logits, const std::int32_t* chosen,
                const StepBlock* block) {
  count_plain(queue, s, {1, s.rows, 0}, scratch, plain, logits, chosen);
  add_counts(queue, s, dload, accumulate, scratch, block);
}

template <class T>
void set_choice_counts(Kernels<T>& table) {
  table.routed_tokens = routed_tokens;
  table.update_router_bias = update_router_bias<T>;
  table.update_router_load = update_router_load<T>;
}
TRIREME_GPU_INSTANTIATE(set_choice_counts);

}  // namespace trireme::gpu
