// Judges whether layouts compute the same training steps: to the bit where exact numerics promise
// it, otherwise up to rounding. A difference is traced to the first value that differs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compare/first_difference.h"
#include "compare/layout_run.h"
#include "compare/parity_plan.h"

namespace trireme {

struct ParityVerdict {
  enum class Result { equal, rounding, differs };
  Result result = Result::equal;
  bool bits_promised = false;
  std::vector<double> losses, norms;  // by step
  // Distances of the gradients of the first step from those in fp64, relative to these: of this
  // layout and of one rank. 0 if bits are promised.
  double distance = 0, distance_of_one_rank = 0;
  std::optional<FirstDifference> first;
  std::int64_t values = 0, compared = 0;  // as in ValueComparison
  std::string problem;                    // what differs if no value is to blame
};

// Whether the layout has the bits of one rank.
bool promises_bits(const ParityLayout& layout, const ParityLayout& one_rank);

// Bytes of the largest run that judging the layout takes.
std::int64_t bytes_needed(const ParityLayout& layout, const ParityLayout& one_rank);

using LayoutRunner = std::function<LayoutRun(const Config& config, int ranks)>;

// Runs what the verdicts need, with the first layouts' runs kept for the later ones.
class ParityJudge {
 public:
  ParityJudge(ParityLayout one_rank, LayoutRunner runner)
      : one_rank_(std::move(one_rank)), runner_(std::move(runner)) {}

  ParityVerdict judge(const ParityLayout& layout);
  // Refuses numbers that cannot be compared: a loss or norm that is not finite, or no gradient.
  const LayoutRun& one_rank();

 private:
  const LayoutRun& one_rank_in_fp64();
  void compare(const LayoutRun& run, const LayoutRun& expected, double tolerance,
               ParityVerdict& verdict) const;
  void judge_rounding(const ParityLayout& layout, const LayoutRun& run, ParityVerdict& verdict);

  ParityLayout one_rank_;
  LayoutRunner runner_;
  std::optional<LayoutRun> run_, run_in_fp64_;
};

}  // namespace trireme
