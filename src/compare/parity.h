// Judges whether layouts compute the same training steps: to the bit where exact numerics promise
// it, otherwise up to rounding. A difference is traced to the first value that differs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compare/layout_run.h"

namespace trireme {

// A layout to compare with a single rank.
struct ParityLayout {
  std::string text;  // as given
  Config config;
  int ranks = 1;
  std::vector<std::string> notes = {};  // settings without effect
};

// Reads layouts: each a list, separated by spaces or commas, of overrides "section.key=value" of a
// layout, in which "parallel." may be left out, "sp" stands for sequence_parallel, and dp=N gives
// the data-parallel degree (default: the smallest with which the layout makes sense). `settings`
// are overrides for all layouts. Refused (exit code 2): what changes the model or its numbers,
// layouts that do not fit, and too many ranks.
struct ParityRequest {
  std::string file;
  std::vector<std::string> layouts, settings;
};
struct ParityPlan {
  ParityLayout one_rank;  // the reference
  std::vector<ParityLayout> layouts;
};
ParityPlan plan_parity(const ParityRequest& request);

// The first value, in the order of computation on one rank, that differs.
struct FirstDifference {
  int step = 0;  // from 0
  StepPlace place;
  std::vector<int> ranks;  // whose values differ
  std::string group;       // what these ranks are: "a tensor-parallel group"; "" if nothing common
  double factor = 0;  // that the values have over those of one rank, if all have the same; 0: none
  double expected = 0, found = 0;  // norms of the differing parts
  bool is_whole = true;            // false: the ranks do not hold all elements equally often
  std::int64_t elements = 0, elements_on_one_rank = 0;  // of the differing parts

  std::string text() const;
};

struct ValueComparison {
  std::optional<FirstDifference> first;
  // Tensors of one rank, in all steps, and how many of them were compared: up to `first`.
  std::int64_t values = 0, compared = 0;
};

// Compares the values of a layout with those of one rank; bit by bit, or up to this relative
// difference.
ValueComparison compare_values(const LayoutRun& layout, const LayoutRun& one_rank,
                               double tolerance = 0);

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
