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

struct Distance {
  double distance = 0, size = 0;
  double relative() const { return size > 0 ? distance / size : distance; }
};

// Returns the distance of the first step's gradients, and the gradient that is farthest away.
Distance distance_of(const LayoutRun& run, const LayoutRun& truth, FirstDifference* farthest) {
  Distance all;
  double most = -1;
  const StepValues& expected = truth.steps[0][0];
  for (const std::string& key : expected.order()) {
    const StepValues::Entry& entry = *expected.find(key);
    if (entry.place.kind != StepPlace::Kind::gradient) continue;
    const auto own = gradient_figures(run.steps[0], key, entry);
    const auto its = gradient_figures(truth.steps[0], key, entry);
    Distance one;
    for (std::size_t i = 0; i < std::min(own.size(), its.size()); ++i) {
      const double away = own[i] * truth.loss_scale / run.loss_scale - its[i];
      one.distance += away * away;
      one.size += its[i] * its[i];
    }
    if (own.size() < its.size()) one.distance = INFINITY;  // it has no such gradient
    all.distance += one.distance;
    all.size += one.size;
    if (!farthest || one.distance <= most) continue;
    most = one.distance;
    farthest->place = entry.place;
    farthest->expected = std::sqrt(one.size);
    farthest->found = std::sqrt(one.distance);
  }
  return {std::sqrt(all.distance), std::sqrt(all.size)};
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
// by its distance from fp64, which must be of the size of one rank's distance.
void ParityJudge::judge_rounding(const ParityLayout& layout, const LayoutRun& run,
                                 ParityVerdict& verdict) {
  const LayoutRun in_double = runner_(in_fp64(layout.config), layout.ranks);
  const LayoutRun& truth = one_rank_in_fp64();
  compare(in_double, truth, tolerance_in_fp64, verdict);
  FirstDifference farthest;
  verdict.distance = distance_of(run, truth, &farthest).relative();
  verdict.distance_of_one_rank = distance_of(one_rank(), truth, nullptr).relative();
  if (verdict.first || !verdict.problem.empty()) return;
  const double allowed =
      4 * verdict.distance_of_one_rank + 4 * rounding_of(layout.config.run.precision);
  if (verdict.distance <= allowed) return;
  verdict.problem = fmt::format(
      "step 1: the relative error of the gradients with respect to fp64 is {:.3g}, and on one rank "
      "{:.3g}: more than rounding, and only in this precision. The largest error is in {}",
      verdict.distance, verdict.distance_of_one_rank, farthest.place.text());
}

}  // namespace trireme
