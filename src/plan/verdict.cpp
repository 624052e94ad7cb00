// Plans variants of the run with one or two settings changed.
#include "plan/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "config/families.h"
#include "config/offload.h"
#include "config/run_rules.h"

namespace trireme {
namespace {

const RankPlan& largest_rank(const LayoutPlan& plan) {
  return *std::max_element(
      plan.ranks.begin(), plan.ranks.end(),
      [](const RankPlan& a, const RankPlan& b) { return a.device_bytes() < b.device_bytes(); });
}

// Maximum host memory of a node's ranks.
std::int64_t on_host_of(const LayoutPlan& plan, const NodeHost& host) {
  std::vector<std::int64_t> of_position;
  for (const RankPlan& rank : plan.ranks) of_position.push_back(rank.host_bytes());
  return on_fullest_node(of_position, plan.mesh.size(), host.ranks);
}

struct Change {
  std::string text;
  void (*apply)(Config&);
};

// Changes that save memory without changing the model or the batch, cheapest first.
std::vector<Change> changes_for(const Config& config, const LayoutPlan& plan, bool host_is_short) {
  std::vector<Change> changes;
  if (host_is_short) {
    if (config.checkpoint.async)
      changes.push_back({"checkpoint.async=false", [](Config& c) { c.checkpoint.async = false; }});
    if (leaves_memory(config, config.offload.activations))
      changes.push_back({"offload.activations=none",
                         [](Config& c) { c.offload.activations = OffloadPlace::none; }});
  }
  const ParallelConfig& p = config.parallel;
  if (p.tp > 1 && !p.sequence_parallel) {
    changes.push_back({"parallel.sequence_parallel=true",
                       [](Config& c) { c.parallel.sequence_parallel = true; }});
  }
  if (plan.mesh.degrees().dp() / p.dp_replicate > 1) {
    if (p.zero < 1) changes.push_back({"parallel.zero=1", [](Config& c) { c.parallel.zero = 1; }});
    if (p.zero < 2) changes.push_back({"parallel.zero=2", [](Config& c) { c.parallel.zero = 2; }});
    if (p.zero < 3) changes.push_back({"parallel.zero=3", [](Config& c) { c.parallel.zero = 3; }});
  }
  if (p.recompute == Recompute::none) {
    changes.push_back({"parallel.recompute=selective",
                       [](Config& c) { c.parallel.recompute = Recompute::selective; }});
  }
  if (p.recompute != Recompute::full) {
    changes.push_back(
        {"parallel.recompute=full", [](Config& c) { c.parallel.recompute = Recompute::full; }});
  }
  if (config.train.micro_batch_size > 1) {
    changes.push_back(
        {"train.micro_batch_size=1", [](Config& c) { c.train.micro_batch_size = 1; }});
  }
  std::erase_if(changes, [&](const Change& change) {
    Config changed = config;
    change.apply(changed);
    return family_refuses(changed);
  });
  return changes;
}

std::string key_of(const std::string& override_text) {
  return override_text.substr(0, override_text.find('='));
}

// Bytes of the rank that needs most, with the given changes; max() if host memory is exceeded or
// the layout becomes invalid.
std::int64_t needed_with(const std::vector<const Change*>& changes, Config config, int ranks,
                         const Target& target, const NodeHost& host) {
  // The number of samples per step must not change.
  config.train.global_batch_size = global_batch_size(config, ranks);
  for (const Change* change : changes) change->apply(config);
  try {
    check_run(config, ranks);
    const LayoutPlan plan = plan_layout(config, ranks, target);
    if (host.memory > 0 && on_host_of(plan, host) > host.memory) return INT64_MAX;
    const RankPlan& largest = largest_rank(plan);
    return largest.device_bytes();
  } catch (const Error&) {
    return INT64_MAX;
  }
}

std::vector<Alternative> look_for(const LayoutPlan& plan, const Config& config, int ranks,
                                  std::int64_t limit, const NodeHost& host) {
  constexpr std::size_t enough = 4;
  const bool host_is_short = host.memory > 0 && on_host_of(plan, host) > host.memory;
  const std::vector<Change> changes = changes_for(config, plan, host_is_short);
  std::vector<Alternative> fitting;
  const auto attempt = [&](const std::vector<const Change*>& chosen) {
    const std::int64_t needed = needed_with(chosen, config, ranks, plan.target, host);
    if (needed > limit) return;
    Alternative found{{}, needed};
    for (const Change* change : chosen) found.overrides.push_back(change->text);
    fitting.push_back(std::move(found));
  };
  for (const Change& one : changes) attempt({&one});
  for (std::size_t i = 0; i < changes.size() && fitting.empty(); ++i) {
    for (std::size_t j = i + 1; j < changes.size(); ++j) {
      if (key_of(changes[i].text) != key_of(changes[j].text)) attempt({&changes[i], &changes[j]});
    }
  }
  if (fitting.empty() && !changes.empty()) {
    // Combines the changes: the last one of each key.
    std::vector<const Change*> all;
    for (const Change& change : changes) {
      if (!all.empty() && key_of(all.back()->text) == key_of(change.text)) all.pop_back();
      all.push_back(&change);
    }
    attempt(all);
  }
  if (fitting.size() > enough) fitting.resize(enough);
  return fitting;
}

// Formats "fits 64.00 GiB" or "does not fit 64.00 GiB".
std::string limit_text(std::int64_t needed, std::int64_t limit) {
  return fmt::format("{} {}", needed <= limit ? "fits" : "does not fit", bytes_to_text(limit));
}
std::string rest_text(std::int64_t needed, std::int64_t limit) {
  return needed <= limit ? fmt::format("{} left", bytes_to_text(limit - needed))
                         : fmt::format("{} too much", bytes_to_text(needed - limit));
}

std::string host_text(const Verdict& v) {
  return fmt::format(
      "verdict: {} of host memory per node; the fullest node, with {}, needs {}: {}\n",
      limit_text(v.on_host, v.host.memory), counted(v.host.ranks, "rank"), bytes_to_text(v.on_host),
      rest_text(v.on_host, v.host.memory));
}

std::string largest_text(const Verdict& v) {
  std::string text = "  the largest regions:";
  for (const MemoryRegion& region : v.largest) {
    if (region.bytes > 0)
      text += fmt::format("{} {} {}", &region == &v.largest[0] ? "" : ",", region.name,
                          bytes_to_text(region.bytes));
  }
  return text + '\n';
}

std::string kept_text(const StoredBytes& kept) {
  std::vector<std::string> parts;
  for (const auto& [what, bytes] : {std::pair{"optimizer states", kept.states},
                                    {"parameters", kept.parameters},
                                    {"activations", kept.activations},
                                    {"copy for checkpoints", kept.copies}})
    if (bytes > 0) parts.push_back(fmt::format("{} {}", what, bytes_to_text(bytes)));
  return fmt::format("  host memory per rank: {}\n", fmt::join(parts, ", "));
}

}  // namespace

Verdict judge(const LayoutPlan& plan, const Config& config, int ranks, std::int64_t limit,
              const NodeHost& host) {
  const RankPlan& rank = largest_rank(plan);
  Verdict verdict;
  verdict.limit = limit;
  verdict.pipeline_rank = rank.pipeline_rank;
  verdict.planned = rank.memory.total();
  verdict.besides = rank.besides.total();
  verdict.largest = rank.memory.regions;
  std::stable_sort(verdict.largest.begin(), verdict.largest.end(),
                   [](const MemoryRegion& a, const MemoryRegion& b) { return a.bytes > b.bytes; });
  if (verdict.largest.size() > 5) verdict.largest.resize(5);
  verdict.host = host;
  verdict.on_host = on_host_of(plan, host);
  for (const RankPlan& one : plan.ranks)
    if (one.on_host.total() > verdict.kept.total()) verdict.kept = one.on_host;
  if (!verdict.fits()) {
    verdict.tried = true;
    verdict.fitting = look_for(plan, config, ranks, limit, host);
  }
  return verdict;
}

std::string to_text(const Verdict& v) {
  std::string text = fmt::format(
      "verdict: {} of memory per rank; pipeline rank {} needs the most, {} planned and about {} "
      "estimated in addition: {}\n",
      limit_text(v.needed(), v.limit), v.pipeline_rank, bytes_to_text(v.planned),
      bytes_to_text(v.besides), rest_text(v.needed(), v.limit));
  if (v.host.memory > 0 && v.kept.total() > 0) text += host_text(v);
  if (v.fits()) return text;
  if (!v.fits_device()) text += largest_text(v);
  if (!v.fits_host()) text += kept_text(v.kept);
  if (v.fitting.empty()) {
    return text +
           "  no setting with the same model and batch size fits: use a larger parallel.tp or "
           "parallel.pp, or more ranks\n";
  }
  text += "  alternatives that fit:\n";
  for (const Alternative& one : v.fitting)
    text +=
        fmt::format("    {:<64} {}\n", fmt::join(one.overrides, " "), bytes_to_text(one.needed));
  return text;
}

}  // namespace trireme
