// Judges a layout: by its bits where they are promised, otherwise by its distance from fp64.
#include "compare/parity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

// Between layouts in fp64, relative to the size of a tensor. Sums in other orders differ by about
// 1e-13, errors by 1e-3 and more.
constexpr double tolerance_in_fp64 = 1e-6;

Config in_fp64(Config config) {
  config.run.precision = Precision::fp64;
  config.run.gradient_dtype = StateType::fp32;  // as wide as the arithmetic
  config.optimizer.moment_dtype = StateType::fp32;
  config.fp8 = {};
  // A gradient that should be zero is rounding, which must not become a whole step.
  if (config.optimizer.name == OptimizerKind::lion) config.optimizer.name = OptimizerKind::adamw;
  config.optimizer.eps = std::max(config.optimizer.eps, 1e-6);
  // Exact sums are those of 32-bit gradients.
  config.parallel.numerics = Numerics::fast;
  config.parallel.exact_block = config.parallel.exact_leaves = 0;
  return config;
}

double rounding_of(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return 0x1p-8;
    case Precision::fp16:
      return 0x1p-11;
    case Precision::fp32:
      return 0x1p-24;
    case Precision::fp64:
      break;
  }
  return 0x1p-53;
}

// The sums of a gradient's parts over all ranks, per copy, in units that weigh all elements alike.
std::vector<double> gradient_figures(const std::vector<StepValues>& ranks, const std::string& key,
                                     const StepValues::Entry& expected) {
  std::vector<ValueSums> sums(expected.parts.size());
  for (const StepValues& values : ranks) {
    const StepValues::Entry* const entry = values.find(key);
    if (!entry || entry->parts.size() != sums.size()) continue;
    for (std::size_t p = 0; p < sums.size(); ++p) sums[p] += entry->parts[p];
  }
  std::vector<double> figures;
  for (std::size_t p = 0; p < sums.size(); ++p) {
    const auto all = static_cast<double>(sums[p].elements),
               whole = static_cast<double>(expected.parts[p].elements);
    if (all == 0 || whole == 0) continue;
    figures.push_back(sums[p].sum * whole / all / std::sqrt(whole));
    figures.push_back(std::sqrt(sums[p].squares * whole / all));
  }
  return figures;
}

// How far a gradient, or several, are from those in fp64, and their size there.
struct Distance {
  const StepPlace* place = nullptr;
  std::int64_t elements = 0;
  double distance = 0, size = 0;
  double relative() const { return size > 0 ? distance / size : distance; }
};

// The length of a vector with these two sides. std::hypot requires glibc 2.35, and wheels 2.34;
// squares of gradients, which are fp32 numbers or smaller, are in the range of fp64.
double length_of(double a, double b) {
  return std::sqrt(a * a + b * b);
}

Distance distance_of(const LayoutRun& run, const LayoutRun& truth, const std::string& key) {
  const StepValues::Entry& entry = *truth.steps[0][0].find(key);
  const auto own = gradient_figures(run.steps[0], key, entry);
  const auto its = gradient_figures(truth.steps[0], key, entry);
  Distance one{&entry.place};
  for (const ValueSums& part : entry.parts) one.elements += part.elements;
  for (std::size_t i = 0; i < std::min(own.size(), its.size()); ++i) {
    one.distance = length_of(one.distance, own[i] * truth.loss_scale / run.loss_scale - its[i]);
    one.size = length_of(one.size, its[i]);
  }
  if (own.size() < its.size()) one.distance = INFINITY;  // it has no such gradient
  return one;
}

// Of each gradient of the first step.
std::vector<Distance> distances_of(const LayoutRun& run, const LayoutRun& truth) {
  std::vector<Distance> all;
  const StepValues& expected = truth.steps[0][0];
  for (const std::string& key : expected.order())
    if (expected.find(key)->place.kind == StepPlace::Kind::gradient)
      all.push_back(distance_of(run, truth, key));
  return all;
}

double relative_distance(const std::vector<Distance>& gradients) {
  Distance all;
  for (const Distance& one : gradients) {
    all.distance = length_of(all.distance, one.distance);
    all.size = length_of(all.size, one.size);
  }
  return all.relative();
}

// What one gradient may differ by, beyond what it does on one rank: of its norm. A doubled
// gradient, or one that misses half of its terms, differs by more.
constexpr double share_of_gradient = 0.25;
// Fewer elements may cancel by chance.
constexpr std::int64_t fewest_elements = 8;

// Describes the gradient that is farthest beyond what rounding explains, by the same gradients on
// one rank; "" if there is none.
std::string gradient_beyond_rounding(const std::vector<Distance>& gradients,
                                     const std::vector<Distance>& on_one_rank) {
  const Distance *farthest = nullptr, *its_own = nullptr;
  double most = 1;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Distance &own = gradients[i], &one = on_one_rank[i];
    if (own.elements < fewest_elements || 4 * one.distance > own.size) continue;
    const double excess = own.distance / (4 * one.distance + share_of_gradient * own.size);
    if (excess <= most) continue;
    most = excess;
    farthest = &own;
    its_own = &one;
  }
  if (!farthest) return "";
  return fmt::format(
      "step 1: the relative error of {} with respect to fp64 is {:.3g}, and on one rank {:.3g}: "
      "more than rounding, and only in this precision",
      farthest->place->text(), farthest->relative(), its_own->relative());
}

// The first step with a loss or norm that is not finite; -1 if there is none.
int step_not_finite(const LayoutRun& run) {
  for (std::size_t step = 0; step < run.losses.size(); ++step)
    if (!std::isfinite(run.losses[step]) || !std::isfinite(run.norms[step]))
      return static_cast<int>(step);
  return -1;
}

// Nothing is updated in a step that is not finite, and no error shows in a gradient of zero.
void check_comparable(const LayoutRun& run, Precision precision) {
  for (std::size_t step = 0; step < run.losses.size(); ++step) {
    const double loss = run.losses[step], norm = run.norms[step];
    if (std::isfinite(loss) && std::isfinite(norm) && norm > 0) continue;
    fail_input(
        "step {} on one rank in {} has the loss {:.6g} and the gradient norm {:.6g}: to compare "
        "layouts, both must be finite and the norm above 0: for example, set a smaller "
        "optimizer.lr or a different model.init_std for all layouts with --set",
        step + 1, precision, loss, norm);
  }
}

// Describes the first of the steps' totals that differs; "" if none does.
std::string differing_total(const LayoutRun& run, const LayoutRun& one_rank, double tolerance) {
  for (std::size_t step = 0; step < run.losses.size(); ++step) {
    for (const auto& [name, own, its] :
         {std::tuple{"loss", run.losses[step], one_rank.losses[step]},
          std::tuple{"norm of the gradient", run.norms[step], one_rank.norms[step]}}) {
      if (std::abs(own - its) <= tolerance * std::abs(its)) continue;
      return fmt::format(
          "step {}: the {} is {}, on one rank {}, although all of its inputs are equal", step + 1,
          name, own, its);
    }
  }
  return "";
}

}  // namespace

bool promises_bits(const ParityLayout& layout, const ParityLayout& one_rank) {
  const ParallelConfig& p = layout.config.parallel;
  const bool has_blocks = p.exact_block > 0;
  return p.exact() && (p.tp == 1 || p.exact_leaves > 0) && p.expert_tp == 1 &&
         (p.cp == 1 || (has_blocks && p.cp_attention != ContextAttention::ring)) &&
         (has_blocks ||
          layout.config.train.micro_batch_size == one_rank.config.train.micro_batch_size);
}

std::int64_t bytes_needed(const ParityLayout& layout, const ParityLayout& one_rank) {
  std::int64_t bytes = bytes_of_layout(layout.config, layout.ranks);
  if (!promises_bits(layout, one_rank))
    bytes = std::max(bytes, bytes_of_layout(in_fp64(layout.config), layout.ranks));
  return bytes;
}

const LayoutRun& ParityJudge::one_rank() {
  if (!run_) {
    run_ = runner_(one_rank_.config, 1);
    check_comparable(*run_, one_rank_.config.run.precision);
  }
  return *run_;
}

const LayoutRun& ParityJudge::one_rank_in_fp64() {
  if (!run_in_fp64_) {
    run_in_fp64_ = runner_(in_fp64(one_rank_.config), 1);
    check_comparable(*run_in_fp64_, Precision::fp64);
  }
  return *run_in_fp64_;
}

ParityVerdict ParityJudge::judge(const ParityLayout& layout) {
  using Result = ParityVerdict::Result;
  ParityVerdict verdict;
  verdict.bits_promised = promises_bits(layout, one_rank_);
  const LayoutRun& expected = one_rank();
  const LayoutRun run = runner_(layout.config, layout.ranks);
  verdict.losses = run.losses;
  verdict.norms = run.norms;
  if (verdict.bits_promised)
    compare(run, expected, 0, verdict);
  else
    judge_rounding(layout, run, verdict);
  const int step = step_not_finite(run);
  if (step >= 0 && verdict.problem.empty() && !verdict.first) {
    verdict.problem = fmt::format(
        "step {}: the loss is {:.6g} and the norm of the gradient {:.6g}, on one rank {:.6g} and "
        "{:.6g}",
        step + 1, run.losses[step], run.norms[step], expected.losses[step], expected.norms[step]);
  }
  const bool differs = verdict.first || !verdict.problem.empty();
  verdict.result = differs                 ? Result::differs
                   : verdict.bits_promised ? Result::equal
                                           : Result::rounding;
  return verdict;
}

void ParityJudge::compare(const LayoutRun& run, const LayoutRun& expected, double tolerance,
                          ParityVerdict& verdict) const {
  auto [first, values, compared] = compare_values(run, expected, tolerance);
  verdict.first = std::move(first);
  verdict.values = values;
  verdict.compared = compared;
  if (!verdict.first) verdict.problem = differing_total(run, expected, tolerance);
}

// Compares in fp64 first, where rounding hides no error, then judges the layout in its precision
// by its gradients' distances from fp64, which must be of the size of one rank's distances.
void ParityJudge::judge_rounding(const ParityLayout& layout, const LayoutRun& run,
                                 ParityVerdict& verdict) {
  const LayoutRun in_double = runner_(in_fp64(layout.config), layout.ranks);
  const LayoutRun& truth = one_rank_in_fp64();
  compare(in_double, truth, tolerance_in_fp64, verdict);
  const auto own = distances_of(run, truth), of_one = distances_of(one_rank(), truth);
  verdict.distance = relative_distance(own);
  verdict.distance_of_one_rank = relative_distance(of_one);
  if (verdict.first || !verdict.problem.empty()) return;
  verdict.problem = gradient_beyond_rounding(own, of_one);
  const double allowed =
      4 * verdict.distance_of_one_rank + 4 * rounding_of(layout.config.run.precision);
  if (!verdict.problem.empty() || verdict.distance <= allowed) return;
  verdict.problem = fmt::format(
      "step 1: the relative error of all gradients with respect to fp64 is {:.3g}, and on one rank "
      "{:.3g}: more than rounding, and only in this precision. The largest error is in {}",
      verdict.distance, verdict.distance_of_one_rank,
      std::ranges::max_element(own, {}, &Distance::distance)->place->text());
}

}  // namespace trireme
