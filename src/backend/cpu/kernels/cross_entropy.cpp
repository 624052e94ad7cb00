// Softmax statistics of rows of logits, the in-place gradient of the
// cross-entropy, and both fused.
#include "backend/cpu/kernels/math.h"
#include "backend/cpu/kernels/parallel.h"
#include "backend/cpu/kernels/table.h"
#include "backend/cpu/small_kernels.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
constexpr double element_ns = sizeof(T) == 8 ? 8.0 : 0.5;

// Number of columns whose maximum is taken before their exponentials are summed: they stay in L1,
// so memory is read only once.
constexpr std::int64_t block_columns = 2048;

template <class T>
Acc<T> largest_of(const T* x, std::int64_t count) {
  using A = Acc<T>;
  constexpr A lowest = -__builtin_inf();
  constexpr std::int64_t lanes = lanes_of<T>;
  Vec<A> best[4] = {splat(lowest), splat(lowest), splat(lowest), splat(lowest)};
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    for (int k = 0; k < 4; ++k) best[k] = max(load(x + i + k * lanes), best[k]);
  }
  for_vectors<lanes>(count - i, [&](std::int64_t j, auto n) TRIREME_INLINE_LAMBDA {
    best[0] = max(keep(load(x + i + j, n), n, lowest), best[0]);
  });
  return max_lanes(max(max(best[0], best[1]), max(best[2], best[3])));
}

// Sum of exp(x - shift).
template <class T>
Acc<T> sum_of_exp(const T* x, std::int64_t count, Acc<T> shift) {
  const auto shifts = splat(shift);
  return sum_terms<Acc<T>>(count, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    return exp(load(x + i, n) - shifts);
  });
}

template <class T>
void stats_of_row(Acc<T>& largest, Acc<T>& sum, const T* logits, std::int64_t vocab) {
  using A = Acc<T>;
  constexpr A lowest = -__builtin_inf();
  A best = lowest;
  double total = 0;
  for (std::int64_t c = 0; c < vocab; c += block_columns) {
    const std::int64_t count = vocab - c < block_columns ? vocab - c : block_columns;
    const A here = largest_of(logits + c, count);
    if (best < here) {
      if (total != 0) total *= exp(splat(best - here)).part[0][0];
      best = here;
    }
    total += sum_of_exp(logits + c, count, best == lowest ? A{0} : best);
  }
  largest = best;
  sum = static_cast<A>(total);
}

template <class T>
void softmax_stats(Acc<T>* largest, Acc<T>* sum, Acc<T>* target_logit, const T* logits,
                   const std::int32_t* targets, std::int64_t rows, std::int64_t vocab,
                   std::int64_t ld, std::int64_t first_id) {
  const double row_ns = element_ns<T> * static_cast<double>(vocab);
  parallel_pieces(rows, row_ns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* row = logits + r * ld;
      const std::int64_t target = targets[r] - first_id;
      stats_of_row(largest[r], sum[r], row, vocab);
      target_logit[r] = target >= 0 && target < vocab ? load_one(row + target) : Acc<T>{0};
    }
  });
}

template <class T>
void grad_of_row(T* logits, Acc<T> lse, std::int64_t target, Acc<T> scale, std::int64_t vocab,
                 std::int64_t ld) {
  using A = Acc<T>;
  const bool here = target >= 0 && target < vocab;
  const A target_logit = here ? load_one(logits + target) : A{0};
  for_vectors<lanes_of<T>>(vocab, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    store(logits + i, exp(load(logits + i, n) - splat(lse)) * splat(scale), n);
  });
  if (here) {
    const A probability = exp(splat(target_logit - lse)).part[0][0];
    store_one(logits + target, (probability - A{1}) * scale);
  }
  __builtin_memset(static_cast<void*>(logits + vocab), 0, (ld - vocab) * sizeof(T));
}

// Weight of a row in the gradient: see the kernel's entry in kernels.h.
double weight_of_row(const StepBlock* block, const float* weights, std::int64_t r) {
  return weights ? block->grad_scale * weights[r] : block->sample_scale;
}

template <class T>
void cross_entropy_grad(T* logits, const Acc<T>* lse, const std::int32_t* targets,
                        const float* weights, const StepBlock* block, std::int64_t rows,
                        std::int64_t vocab, std::int64_t ld, std::int64_t first_id) {
  const double row_ns = element_ns<T> * static_cast<double>(vocab);
  parallel_pieces(rows, row_ns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      grad_of_row(logits + r * ld, lse[r], targets[r] - first_id,
                  static_cast<Acc<T>>(weight_of_row(block, weights, r)), vocab, ld);
    }
  });
}

template <class T>
void classifier(T* logits, Acc<T>* loss, const std::int32_t* targets, const float* weights,
                const StepBlock* block, std::int64_t rows, std::int64_t vocab, std::int64_t ld,
                std::int64_t first_id) {
  using A = Acc<T>;
  const double row_ns = 2 * element_ns<T> * static_cast<double>(vocab);
  parallel_pieces(rows, row_ns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      T* const row = logits + r * ld;
      const std::int64_t target = targets[r] - first_id;
      A largest, sum, lse;
      stats_of_row(largest, sum, row, vocab);
      const A target_logit = target >= 0 && target < vocab ? load_one(row + target) : A{0};
      token_loss(loss + r, &lse, &largest, &sum, &target_logit, 1);
      grad_of_row(row, lse, target, static_cast<A>(weight_of_row(block, weights, r)), vocab, ld);
    }
  });
}

}  // namespace

template <class T>
void set_cross_entropy(Kernels<T>& table) {
  table.softmax_stats = at_once<softmax_stats<T>>;
  table.cross_entropy_grad = at_once<cross_entropy_grad<T>>;
  table.classifier = at_once<classifier<T>>;
}
TRIREME_INSTANTIATE(set_cross_entropy)

}  // namespace trireme::cpu::TRIREME_ISA
