// Plans layouts in order until one fits.
#include "plan/choose_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "config/run_rules.h"
#include "plan/layout_memory.h"
#include "plan/layout_search.h"
#include "runtime/devices.h"
#include "runtime/memory.h"

namespace trireme {
namespace {

constexpr std::int64_t most_tp = 8;

// Whether a layout suits a first run: excludes those that pay off only with measured step times.
bool is_simple(const Layout& layout, int ranks) {
  const ParallelConfig& p = layout.parallel;
  const bool shared = data_parallel_size(p, ranks) > 1;
  const bool zero = p.zero == (shared ? 1 : 0) || (shared && p.pp == 1 && p.zero == 2);
  return zero && p.tp <= most_tp && p.cp == 1 && p.ep == 1 && p.dp_replicate == 1 &&
         p.schedule == ScheduleKind::one_f_one_b && p.stage_layers.empty() &&
         p.recompute_layers == 0;
}

// Fewest parts first; on ties, more tensor parallelism first, which has no bubble. Full
// recomputation comes last.
std::vector<const Layout*> simplest_first(const LayoutSpace& space, int ranks) {
  std::vector<const Layout*> layouts;
  for (const Layout& layout : space.layouts)
    if (layout.micro_batch_size == 1 && is_simple(layout, ranks)) layouts.push_back(&layout);
  const auto effort = [](const Layout* layout) {
    const ParallelConfig& p = layout->parallel;
    return std::tuple(p.recompute == Recompute::full, p.tp * p.pp, p.pp,
                      p.recompute != Recompute::none, p.zero);
  };
  std::stable_sort(layouts.begin(), layouts.end(),
                   [&](const Layout* a, const Layout* b) { return effort(a) < effort(b); });
  return layouts;
}

// Larger products are faster, as long as each stage has its own micro-batch.
void widen(LayoutChoice& choice, const RankSet& set, const Target& target, std::int64_t room) {
  const ParallelConfig& p = choice.config.parallel;
  const std::int64_t samples =
      choice.config.train.global_batch_size / data_parallel_size(p, set.ranks);
  for (std::int64_t size = 2; size <= 8 && samples % size == 0 && samples / size >= p.pp;
       size *= 2) {
    Config wider = choice.config;
    wider.train.micro_batch_size = size;
    const std::int64_t bytes = layout_memory(wider, set, target, room).needed;
    if (bytes > room) return;
    choice.config = std::move(wider);
    choice.needed = bytes;
  }
}

// Why even the simplest layout splits the model, regardless of memory.
std::string reason_to_cut(const Layout& simplest, const Config& config, const RankSet& set) {
  const ParallelConfig& p = simplest.parallel;
  const std::int64_t batch = config.train.global_batch_size;
  if (p.tp * p.pp == 1 || batch % set.ranks == 0) return "";
  return fmt::format(
      "A batch of {} cannot be distributed evenly over {}; tp = {}, pp = {} splits the model least "
      "(a batch that is a multiple of {} needs no model parallelism).",
      counted(batch, "sequence"), counted(set.ranks, "rank"), p.tp, p.pp, set.ranks);
}

std::int64_t room_of(const RankSet& set) {
  return usable_of(set.memory);
}

}  // namespace

LayoutChoice keep_layout(const Config& config, const RankSet& set, bool wider) {
  check_run(config, set.ranks);
  const Target target = target_of(config.run.device);
  LayoutChoice choice{config, layout_memory(config, set, target).needed, ""};
  if (wider && choice.needed <= room_of(set)) widen(choice, set, target, room_of(set));
  return choice;
}

void refuse_without_layout(const Config& config, const RankSet& set, bool keep) {
  if (keep) return validate_layout(config, set.ranks);
  const LayoutSpace space = layout_space(config, set);
  if (simplest_first(space, set.ranks).empty())
    fail_input("no layout of this model and batch exists for {}: {}", counted(set.ranks, "rank"),
               space.refusal);
}

std::optional<LayoutChoice> choose_layout(const Config& config, const RankSet& set) {
  refuse_without_layout(config, set, false);
  const LayoutSpace space = layout_space(config, set);
  const std::vector<const Layout*> layouts = simplest_first(space, set.ranks);
  const std::int64_t room = room_of(set);
  const Target target = target_of(config.run.device);
  const std::string why_cut = reason_to_cut(*layouts[0], config, set);
  std::string reason;
  for (const Layout* layout : layouts) {
    const Config tried = with_layout(config, *layout);
    const std::int64_t bytes = layout_memory(tried, set, target).needed;
    if (bytes <= room) {
      LayoutChoice choice{tried, bytes,
                          why_cut + (why_cut.empty() || reason.empty() ? "" : " ") + reason};
      widen(choice, set, target, room);
      return choice;
    }
    if (reason.empty())
      reason = fmt::format(
          "With tp = {}, pp = {}, zero = {} it would need {} of {} without recomputation.",
          layout->parallel.tp, layout->parallel.pp, layout->parallel.zero, bytes_to_text(bytes),
          bytes_to_text(set.memory));
  }
  return std::nullopt;
}

}  // namespace trireme
