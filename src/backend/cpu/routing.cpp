// Plain loops over the experts of a row. All sums have a fixed order, so a row's results depend on
// that row only, and a loss only on the rows of its unit.
#include "backend/cpu/routing.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/portable_math.h"
#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

constexpr std::int64_t most_experts = 1024;
constexpr std::int64_t rows_per_task = 64;

template <class A>
struct SoftmaxStats {
  A largest, sum;
  A log_sum_exp() const { return largest + math::log(sum); }
};

// p = exp(logits - largest).
template <class A>
SoftmaxStats<A> exponentials(A* p, const A* logits, std::int64_t count) {
  A largest = logits[0];
  for (std::int64_t e = 1; e < count; ++e) largest = std::max(largest, logits[e]);
  A sum = 0;
  for (std::int64_t e = 0; e < count; ++e) sum += p[e] = math::exp(logits[e] - largest);
  return {largest, sum};
}

template <class A>
void make_scores(const RouterShape& shape, A* scores, const A* logits) {
  if (shape.sigmoid) {
    for (std::int64_t e = 0; e < shape.experts; ++e) scores[e] = 1 / (1 + math::exp(-logits[e]));
    return;
  }
  const A sum = exponentials(scores, logits, shape.experts).sum;
  for (std::int64_t e = 0; e < shape.experts; ++e) scores[e] /= sum;
}

// Indices of the `count` largest of the values that `allowed` accepts, ascending;
// ties go to the lower index.
template <class A, class Allowed>
void pick_largest(std::int32_t* picked, std::int64_t count, const A* values, std::int64_t among,
                  const Allowed& allowed) {
  bool taken[most_experts] = {};
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t best = -1;
    for (std::int64_t e = 0; e < among; ++e) {
      if (!taken[e] && allowed(e) && (best < 0 || values[e] > values[best])) best = e;
    }
    taken[best] = true;
  }
  for (std::int32_t e = 0; e < among; ++e) {
    if (taken[e]) *picked++ = e;
  }
}

// Sum of the `count` largest scores of a group.
template <class A>
A best_of_group(const A* scores, std::int64_t size, std::int64_t count) {
  std::int32_t picked[most_experts];
  pick_largest(picked, count, scores, size, [](std::int64_t) { return true; });
  A sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += scores[picked[i]];
  return sum;
}

// `values` are compared within groups: logits distinguish what rounds to equal scores.
template <class A>
void choose(const RouterShape& shape, std::int32_t* chosen, const A* scores, const A* values) {
  const std::int64_t group_size = shape.experts / shape.groups;
  bool open[most_experts];
  std::fill_n(open, shape.groups, shape.groups == 1);
  if (shape.groups > 1) {
    A sums[most_experts];
    std::int32_t groups[most_experts];
    const std::int64_t count = std::min(group_size, shape.top_k / shape.top_groups);
    for (std::int64_t g = 0; g < shape.groups; ++g)
      sums[g] = best_of_group(scores + g * group_size, group_size, count);
    pick_largest(groups, shape.top_groups, sums, shape.groups, [](std::int64_t) { return true; });
    for (std::int64_t i = 0; i < shape.top_groups; ++i) open[groups[i]] = true;
  }
  pick_largest(chosen, shape.top_k, values, shape.experts,
               [&](std::int64_t e) { return open[e / group_size]; });
}

template <class A>
A sum_of_chosen(const RouterShape& shape, const std::int32_t* chosen, const A* scores) {
  A sum = 0;
  for (std::int64_t j = 0; j < shape.top_k; ++j) sum += scores[chosen[j]];
  return sum + A{1e-20};
}

template <class A>
void weigh(const RouterShape& shape, A* weights, const std::int32_t* chosen, const A* logits,
           const A* scores) {
  const A scaling = static_cast<A>(shape.scaling);
  if (shape.normalize && !shape.sigmoid) {
    for (std::int64_t j = 0; j < shape.top_k; ++j) weights[j] = logits[chosen[j]];
    const A sum = exponentials(weights, weights, shape.top_k).sum;
    for (std::int64_t j = 0; j < shape.top_k; ++j) weights[j] = weights[j] / sum * scaling;
    return;
  }
  const A divisor = shape.normalize && shape.top_k > 1 ? sum_of_chosen(shape, chosen, scores) : 1;
  for (std::int64_t j = 0; j < shape.top_k; ++j) weights[j] = scores[chosen[j]] / divisor * scaling;
}

// Converts the gradient of the weights to that of the logits, in place. `weights` is
// scratch for top_k numbers.
template <class A>
void weights_grad(const RouterShape& shape, A* dlogits, A* weights, const A* dweights,
                  const std::int32_t* chosen, const A* logits, const A* scores) {
  const A scaling = static_cast<A>(shape.scaling);
  const std::int64_t k = shape.top_k;
  A dot = 0;
  if (shape.normalize && !shape.sigmoid) {
    weigh(shape, weights, chosen, logits, scores);
    for (std::int64_t j = 0; j < k; ++j) dot += weights[j] / scaling * dweights[j];
    std::fill_n(dlogits, shape.experts, A{0});
    for (std::int64_t j = 0; j < k; ++j) dlogits[chosen[j]] = weights[j] * (dweights[j] - dot);
    return;
  }
  if (!shape.sigmoid) {
    for (std::int64_t j = 0; j < k; ++j) dot += scores[chosen[j]] * dweights[j];
    for (std::int64_t e = 0; e < shape.experts; ++e) dlogits[e] = -scaling * scores[e] * dot;
    for (std::int64_t j = 0; j < k; ++j)
      dlogits[chosen[j]] += scaling * scores[chosen[j]] * dweights[j];
    return;
  }
  const bool divides = shape.normalize && k > 1;
  const A divisor = divides ? sum_of_chosen(shape, chosen, scores) : 1;
  for (std::int64_t j = 0; divides && j < k; ++j) dot += scores[chosen[j]] * dweights[j];
  std::fill_n(dlogits, shape.experts, A{0});
  for (std::int64_t j = 0; j < k; ++j) {
    const A score = scores[chosen[j]];
    const A dscore = scaling * (dweights[j] - (divides ? dot / divisor : 0)) / divisor;
    dlogits[chosen[j]] = dscore * score * (1 - score);
  }
}

// Counts how often each expert would be chosen by plain score. `plain`: `chosen` is by it.
template <class A>
void count_plain(const RouterShape& shape, bool plain, std::int64_t rows, std::int64_t* counts,
                 const A* logits, const std::int32_t* chosen) {
  RouterShape without_groups = shape;
  without_groups.groups = without_groups.top_groups = 1;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int32_t picked[most_experts];
    const std::int32_t* choice = chosen + r * shape.top_k;
    if (!plain) {
      const A* row = logits + r * shape.experts;
      A scores[most_experts];
      make_scores(shape, scores, row);
      choose(without_groups, picked, scores, shape.sigmoid ? scores : row);
      choice = picked;
    }
    for (std::int64_t j = 0; j < shape.top_k; ++j) ++counts[choice[j]];
  }
}

// This rank's rows of one unit, which may have more rows on other ranks.
struct UnitRows {
  std::int64_t unit, first, count;
};

// Piece `number` of the rows, in order; pieces do not cross units or blocks.
UnitRows piece_of(const RouterShape& shape, const RouterLosses& losses, std::int64_t number) {
  const std::int64_t rows = losses.block_rows > 0 ? losses.block_rows : losses.unit_rows;
  const std::int64_t piece = losses.first_row / rows + number;
  const std::int64_t first = std::max<std::int64_t>(0, piece * rows - losses.first_row);
  const std::int64_t end = std::min(shape.rows, (piece + 1) * rows - losses.first_row);
  return {(losses.first_row + first) / losses.unit_rows, first, end - first};
}

std::int64_t pieces_of(const RouterShape& shape, const RouterLosses& losses) {
  const std::int64_t rows = losses.block_rows > 0 ? losses.block_rows : losses.unit_rows;
  return (losses.first_row + shape.rows - 1) / rows - losses.first_row / rows + 1;
}

// Gradient of a unit's losses with respect to the logits of one row.
template <class A>
class UnitLosses {
 public:
  // counts: the unit's choices by plain score.
  UnitLosses(const RouterShape& shape, const RouterLosses& losses, const std::int64_t* counts)
      : s_(shape), l_(losses) {
    const double choices = static_cast<double>(shape.top_k) * losses.rows();
    for (std::int64_t e = 0; e < shape.experts; ++e)
      frequency_[e] = static_cast<double>(counts[e]) / choices;
  }
  // load: choices of the previous step, over their mean.
  template <class T>
  UnitLosses(const RouterShape& shape, const RouterLosses& losses, const T* load)
      : s_(shape), l_(losses) {
    for (std::int64_t e = 0; e < shape.experts; ++e)
      frequency_[e] =
          static_cast<double>(static_cast<A>(load[e])) / static_cast<double>(shape.experts);
  }

  // Accumulates each expert's share of the scores over rows of the unit.
  void measure(const A* logits, std::int64_t rows) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const A* row = logits + r * s_.experts;
      A scores[most_experts];
      make_scores(s_, scores, row);
      const double total = s_.sigmoid ? sum(scores) : 1;
      for (std::int64_t e = 0; e < s_.experts; ++e)
        share_[e] += static_cast<double>(scores[e]) / total;
      if (l_.z_coeff > 0) {
        const double lse = static_cast<double>(exponentials(scores, row, s_.experts).log_sum_exp());
        squares_ += lse * lse;
      }
    }
  }

  // Contribution of the measured rows to the unit's losses.
  double aux_loss() const {
    double sum = 0;
    for (std::int64_t e = 0; e < s_.experts; ++e) sum += frequency_[e] * share_[e] / l_.rows();
    return l_.aux_coeff * static_cast<double>(s_.experts) * sum;
  }
  double z_loss() const { return l_.z_coeff * squares_ / l_.rows(); }

  // `scale`: weight of the unit in the gradient.
  void add_grad(A* dlogits, const A* logits, const A* scores, double scale) const {
    if (l_.aux_coeff > 0) add_aux(dlogits, scores, scale);
    if (l_.z_coeff > 0) {
      A p[most_experts];
      const SoftmaxStats<A> stats = exponentials(p, logits, s_.experts);
      const A factor = static_cast<A>(scale * l_.z_coeff * 2 / l_.rows()) * stats.log_sum_exp();
      for (std::int64_t e = 0; e < s_.experts; ++e) dlogits[e] += factor * (p[e] / stats.sum);
    }
  }

 private:
  double sum(const A* scores) const {
    double total = 0;
    for (std::int64_t e = 0; e < s_.experts; ++e) total += static_cast<double>(scores[e]);
    return total;
  }

  void add_aux(A* dlogits, const A* scores, double scale) const {
    const double factor = scale * l_.aux_coeff * static_cast<double>(s_.experts) / l_.rows();
    const double total = s_.sigmoid ? sum(scores) : 1;
    double dot = 0;
    for (std::int64_t e = 0; e < s_.experts; ++e)
      dot += factor * frequency_[e] * static_cast<double>(scores[e]) / total;
    for (std::int64_t e = 0; e < s_.experts; ++e) {
      const double score = static_cast<double>(scores[e]);
      const double dp = factor * frequency_[e] - dot;  // through the normalization of scores
      dlogits[e] += static_cast<A>(s_.sigmoid ? dp / total * score * (1 - score) : dp * score);
    }
  }

  const RouterShape& s_;
  const RouterLosses& l_;
  double frequency_[most_experts];
  double share_[most_experts] = {};
  double squares_ = 0;
};

// counts: the kept choices of each expert, then the number of dropped ones.
void count_choices(const RouterShape& shape, std::int64_t* counts, const std::int32_t* chosen,
                   const std::int32_t* places) {
  for (std::int64_t i = 0; i < shape.rows * shape.top_k; ++i)
    ++counts[places[i] < 0 ? shape.experts : chosen[i]];
}

// Sets places to -1 if an expert of this unit is full, else to 0.
template <class A>
void drop_beyond_capacity(const DispatchShape& shape, std::int32_t* places,
                          const std::int32_t* chosen, const A* weights, std::int32_t* sorted) {
  const std::int64_t choices = shape.unit_rows * shape.top_k;
  std::int64_t begin[most_experts + 1] = {}, next[most_experts];
  for (std::int64_t i = 0; i < choices; ++i) ++begin[chosen[i] + 1];
  for (std::int64_t e = 0; e < shape.experts; ++e) begin[e + 1] += begin[e];
  std::copy_n(begin, shape.experts, next);
  for (std::int32_t i = 0; i < choices; ++i) sorted[next[chosen[i]]++] = i;
  std::fill_n(places, choices, 0);
  for (std::int64_t e = 0; e < shape.experts; ++e) {
    if (begin[e + 1] - begin[e] <= shape.capacity) continue;
    std::int32_t* const first_dropped = sorted + begin[e] + shape.capacity;
    if (shape.by_weight) {
      std::nth_element(sorted + begin[e], first_dropped, sorted + begin[e + 1],
                       [&](std::int32_t a, std::int32_t b) {
                         return weights[a] > weights[b] || (weights[a] == weights[b] && a < b);
                       });
    }
    for (std::int32_t* i = first_dropped; i < sorted + begin[e + 1]; ++i) places[*i] = -1;
  }
}

template <class A>
double sum_of(const A* choices, std::int64_t experts) {
  double sum = 0;
  for (std::int64_t e = 0; e < experts; ++e) sum += static_cast<double>(choices[e]);
  return sum;
}

// Stores counts in the buffer in which gradients are summed.
template <class A>
void store_counts(const RouterShape& shape, A* sums, bool accumulate, const std::int64_t* counts,
                  double loss_scale) {
  const double unit = choice_unit * loss_scale;
  for (std::int64_t e = 0; e < shape.experts; ++e) {
    const A count = static_cast<A>(static_cast<double>(counts[e]) * unit);
    sums[e] = accumulate ? sums[e] + count : count;
  }
}

}  // namespace

template <class T>
void route(const RouterShape& shape, Acc<T>* weights, std::int32_t* chosen, const Acc<T>* logits,
           const T* bias) {
  using A = Acc<T>;
  TRIREME_CHECK(shape.experts <= most_experts && shape.top_k <= shape.experts);
  parallel_ranges(shape.rows, rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    A scores[most_experts], biased[most_experts];
    for (std::int64_t r = begin; r < end; ++r) {
      const A* row = logits + r * shape.experts;
      std::int32_t* choice = chosen + r * shape.top_k;
      make_scores(shape, scores, row);
      for (std::int64_t e = 0; bias && e < shape.experts; ++e)
        biased[e] = scores[e] + static_cast<A>(bias[e]);
      const A* ranked = bias ? biased : scores;
      choose(shape, choice, ranked, shape.sigmoid || bias ? ranked : row);
      weigh(shape, weights + r * shape.top_k, choice, row, scores);
    }
  });
}

template <class T>
void route_grad(const RouterShape& shape, const RouterLosses& losses,
                const RouteGradOperands<T>& o) {
  using A = Acc<T>;
  const bool plain = shape.groups == 1 && !o.dbias;
  const bool has_losses = losses.aux_coeff > 0 || losses.z_coeff > 0;
  const double sequences = static_cast<double>(losses.unit_rows) / static_cast<double>(losses.seq);
  ExpertTotals* const totals = o.block->experts;
  std::mutex mutex;
  const auto run_rows = [&](std::int64_t begin, std::int64_t end, const UnitLosses<A>* unit) {
    A scores[most_experts], weights[most_experts];
    for (std::int64_t r = begin; r < end; ++r) {
      const A* row = o.logits + r * shape.experts;
      A* drow = o.dlogits + r * shape.experts;
      make_scores(shape, scores, row);
      weights_grad(shape, drow, weights, o.dweights + r * shape.top_k, o.chosen + r * shape.top_k,
                   row, scores);
      if (unit) unit->add_grad(drow, row, scores, o.block->sample_scale * sequences);
    }
  };
  if (!has_losses) {
    parallel_ranges(shape.rows, rows_per_task,
                    [&](std::int64_t begin, std::int64_t end) { run_rows(begin, end, nullptr); });
  } else {
    TRIREME_CHECK(o.counts || o.load || losses.aux_coeff == 0 ||
                  (losses.block_rows == 0 && losses.first_row == 0));
    parallel_for(pieces_of(shape, losses), [&](std::int64_t piece) {
      const UnitRows rows = piece_of(shape, losses, piece);
      const A* const first = o.logits + rows.first * shape.experts;
      std::int64_t own[most_experts] = {};
      if (!o.counts && !o.load) {
        count_plain(shape, plain, rows.count, own, first, o.chosen + rows.first * shape.top_k);
      }
      UnitLosses<A> unit =
          o.load
              ? UnitLosses<A>(shape, losses, o.load)
              : UnitLosses<A>(shape, losses, o.counts ? o.counts + rows.unit * shape.experts : own);
      unit.measure(first, rows.count);
      run_rows(rows.first, rows.first + rows.count, &unit);
      if (!totals) return;
      const std::lock_guard lock(mutex);
      totals->aux_loss.add(unit.aux_loss() * sequences);
      totals->z_loss.add(unit.z_loss() * sequences);
    });
  }
  if (totals) {
    count_choices(shape, totals->choices() + o.layer * (o.block->most_experts + 1), o.chosen,
                  o.places);
  }
  if (o.dbias) {
    std::int64_t kept[most_experts + 1] = {};
    count_choices(shape, kept, o.chosen, o.places);
    store_counts(shape, o.dbias, o.accumulate, kept, o.block->loss_scale);
  }
  if (o.dload) {
    std::int64_t picked[most_experts] = {};
    count_plain(shape, plain, shape.rows, picked, o.logits, o.chosen);
    store_counts(shape, o.dload, o.accumulate, picked, o.block->loss_scale);
  }
}

template <class A>
void routed_tokens(const RouterShape& shape, const RouterLosses& losses, std::int64_t units,
                   bool plain, std::int64_t* counts, const A* logits, const std::int32_t* chosen) {
  std::fill_n(counts, units * shape.experts, 0);
  RouterLosses of_units = losses;
  of_units.block_rows = 0;
  parallel_for(pieces_of(shape, of_units), [&](std::int64_t piece) {
    const UnitRows rows = piece_of(shape, of_units, piece);
    TRIREME_CHECK(rows.unit < units);
    count_plain(shape, plain, rows.count, counts + rows.unit * shape.experts,
                logits + rows.first * shape.experts, chosen + rows.first * shape.top_k);
  });
}

template <class T>
void update_router_bias(Acc<T>* master, T* compute, const Acc<T>* choices, double rate,
                        std::int64_t experts) {
  using A = Acc<T>;
  const double sum = sum_of(choices, experts);
  for (std::int64_t e = 0; e < experts; ++e) {
    // Avoids the division of a mean, so that equal loads compare equal.
    const double missing = sum - static_cast<double>(choices[e]) * static_cast<double>(experts);
    if (missing != 0) master[e] += static_cast<A>(missing > 0 ? rate : -rate);
    if (compute) compute[e] = static_cast<T>(master[e]);
  }
}

template <class T>
void update_router_load(Acc<T>* master, T* compute, const Acc<T>* choices, std::int64_t experts) {
  const double sum = sum_of(choices, experts);
  for (std::int64_t e = 0; e < experts; ++e) {
    const double load = static_cast<double>(choices[e]) * static_cast<double>(experts) / sum;
    master[e] = static_cast<Acc<T>>(load);
    if (compute) compute[e] = static_cast<T>(master[e]);
  }
}

template <class A>
void dispatch(const DispatchShape& shape, std::int32_t* places, std::int32_t* offsets,
              const std::int32_t* chosen, const A* weights, std::int32_t* workspace) {
  const std::int64_t choices = shape.rows * shape.top_k;
  const bool drops = shape.capacity > 0;
  if (drops) {
    parallel_for(shape.rows / shape.unit_rows, [&](std::int64_t unit) {
      const std::int64_t first = unit * shape.unit_rows * shape.top_k;
      drop_beyond_capacity(shape, places + first, chosen + first, weights + first,
                           workspace + first);
    });
  }
  const std::int64_t groups = shape.experts * shape.blocks;
  const std::int64_t block_choices = choices / shape.blocks;
  const auto group_of = [&](std::int64_t i) {
    return chosen[i] * shape.blocks + i / block_choices;
  };
  std::fill_n(offsets, groups + 1, 0);
  for (std::int64_t i = 0; i < choices; ++i) offsets[group_of(i) + 1] += !drops || places[i] == 0;
  for (std::int64_t g = 0; g < groups; ++g) offsets[g + 1] += offsets[g];
  std::vector<std::int32_t> next(offsets, offsets + groups);
  for (std::int64_t i = 0; i < choices; ++i) {
    if (!drops || places[i] == 0) places[i] = next[static_cast<std::size_t>(group_of(i))]++;
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot appear in parentheses here.
#define TRIREME_INSTANTIATE(T)                                                              \
  template void route(const RouterShape&, Acc<T>*, std::int32_t*, const Acc<T>*, const T*); \
  template void update_router_bias(Acc<T>*, T*, const Acc<T>*, double, std::int64_t);       \
  template void update_router_load(Acc<T>*, T*, const Acc<T>*, std::int64_t);               \
  template void route_grad(const RouterShape&, const RouterLosses&, const RouteGradOperands<T>&);
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(bf16)
TRIREME_INSTANTIATE(f16)
TRIREME_INSTANTIATE(double)
#undef TRIREME_INSTANTIATE
#define TRIREME_INSTANTIATE(A)                                                                    \
  template void routed_tokens(const RouterShape&, const RouterLosses&, std::int64_t, bool,        \
                              std::int64_t*, const A*, const std::int32_t*);                      \
  template void dispatch(const DispatchShape&, std::int32_t*, std::int32_t*, const std::int32_t*, \
                         const A*, std::int32_t*);
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(double)
#undef TRIREME_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace trireme::cpu
