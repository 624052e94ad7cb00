// Plans one layout after the other until one fits.
#include "plan/choose_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "plan/layout_plan.h"
#include "runtime/devices.h"
#include "runtime/memory.h"

namespace trireme {
namespace {

// What a plan may fill: drivers, libraries and other programs want some too.
constexpr double usable = 0.95;

struct Candidate {
  std::int64_t tp, pp, zero;
  const char* recompute;
};

// Fewest parts first; of as many parts, more of them within layers, which costs no bubble.
std::vector<Candidate> candidates(const RankSet& set) {
  std::vector<std::pair<std::int64_t, std::int64_t>> cuts;
  for (std::int64_t tp = 1; tp <= std::min(set.ranks_per_node, 8); tp *= 2)
    for (std::int64_t pp = 1; tp * pp <= set.ranks; pp *= 2) cuts.emplace_back(tp, pp);
  std::stable_sort(cuts.begin(), cuts.end(), [](const auto& a, const auto& b) {
    const std::int64_t parts_a = a.first * a.second, parts_b = b.first * b.second;
    return parts_a != parts_b ? parts_a < parts_b : a.second < b.second;
  });
  std::vector<Candidate> all;
  for (const auto& kinds :
       {std::vector<const char*>{"none", "selective"}, std::vector<const char*>{"full"}}) {
    for (const auto& [tp, pp] : cuts) {
      const bool shared = set.ranks > tp * pp;  // states, by several ranks
      for (const char* recompute : kinds) {
        all.push_back({tp, pp, shared ? 1 : 0, recompute});
        if (shared && pp == 1) all.push_back({tp, pp, 2, recompute});
      }
    }
  }
  return all;
}

Config with(Config config, const Candidate& candidate) {
  ParallelConfig& p = config.parallel;
  p.tp = candidate.tp;
  p.pp = candidate.pp;
  p.zero = candidate.zero;
  p.recompute = candidate.recompute;
  p.sequence_parallel = p.tp > 1;
  return config;
}

// Bytes of the rank that needs most; nothing where the layout does not suit the model, with the
// first `refusal` kept.
std::optional<std::int64_t> needed(const Config& config, int ranks, std::string& refusal) {
  try {
    validate(config);
    validate_layout(config, ranks);
  } catch (const Error& error) {
    if (refusal.empty()) refusal = error.what();
    return std::nullopt;
  }
  std::int64_t most = 0;
  for (const RankPlan& rank : plan_layout(config, ranks, target_of(config.run.device)).ranks)
    most = std::max(most, rank.memory.total() + rank.besides.total());
  return most;
}

// More rows in a product are faster, as long as each stage has a micro-batch of its own.
void widen(LayoutChoice& choice, const RankSet& set, std::int64_t room) {
  const ParallelConfig& p = choice.config.parallel;
  const std::int64_t samples =
      choice.config.train.global_batch_size / data_parallel_size(p, set.ranks);
  for (std::int64_t size = 2; size <= 8 && samples / size >= p.pp; size *= 2) {
    Config wider = choice.config;
    wider.train.micro_batch_size = size;
    std::string refusal;
    const std::optional<std::int64_t> bytes = needed(wider, set.ranks, refusal);
    if (!bytes || *bytes > room) return;
    choice.config = std::move(wider);
    choice.needed = *bytes;
  }
}

}  // namespace

std::optional<LayoutChoice> choose_layout(const Config& config, const RankSet& set) {
  Config narrow = config;
  narrow.train.micro_batch_size = 1;
  const auto room = static_cast<std::int64_t>(usable * static_cast<double>(set.memory));
  std::string reason, refusal;
  bool any = false;
  for (const Candidate& candidate : candidates(set)) {
    const Config tried = with(narrow, candidate);
    const std::optional<std::int64_t> bytes = needed(tried, set.ranks, refusal);
    if (!bytes) continue;
    any = true;
    if (*bytes <= room) {
      LayoutChoice choice{tried, *bytes, reason};
      widen(choice, set, room);
      return choice;
    }
    if (reason.empty())
      reason = fmt::format("tp = {}, pp = {} without recomputation needs {} of {}", candidate.tp,
                           candidate.pp, bytes_to_text(*bytes), bytes_to_text(set.memory));
  }
  if (!any)
    fail_input("this model and batch cannot be laid out over {}: {}", counted(set.ranks, "rank"),
               refusal);
  return std::nullopt;
}

}  // namespace trireme
