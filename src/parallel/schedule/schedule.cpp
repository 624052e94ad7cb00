// Construction of a schedule: validation, order of passes, transfers.
#include "parallel/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "base/error.h"
#include "parallel/schedule/action_walk.h"
#include "parallel/schedule/orders.h"
#include "parallel/states/transfers.h"

namespace trireme {

std::string_view name_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "forward";
    case ActionKind::backward:
      return "backward";
    case ActionKind::input_grad:
      return "input_grad";
    case ActionKind::weight_grad:
      return "weight_grad";
    case ActionKind::send_activation:
      return "send_activation";
    case ActionKind::receive_activation:
      return "receive_activation";
    case ActionKind::send_gradient:
      return "send_gradient";
    case ActionKind::receive_gradient:
      return "receive_gradient";
    case ActionKind::reduce_gradients:
      return "reduce_gradients";
    case ActionKind::step:
      return "step";
  }
  return "?";
}

namespace {

constexpr int max_ranks = 4096;
constexpr std::int64_t max_actions = std::int64_t{1} << 27;

StagePlacement place(const ScheduleRequest& request) {
  const auto& [kind, name, rule, splits_backward, in_groups] = entry_of(request.kind);
  const int chunks = request.chunks ? request.chunks : rule == ChunkRule::one ? 1 : 2;
  switch (rule) {
    case ChunkRule::folded:
      if (chunks == 2) break;
      fail_input("schedule {} requires parallel.virtual_stages = 2, not {}", name, chunks);
    case ChunkRule::several:
      if (chunks >= 2) break;
      fail_input("schedule {} requires parallel.virtual_stages of at least 2; with 1 it is 1f1b",
                 name);
    case ChunkRule::one:
      if (chunks == 1) break;
      fail_input(
          "schedule {} supports only one stage per rank: set parallel.virtual_stages = 1 instead "
          "of {}, or parallel.schedule = \"interleaved\"",
          name, chunks);
  }
  return {request.ranks, chunks, rule == ChunkRule::folded};
}

void validate(const ScheduleRequest& request, const StagePlacement& placement) {
  if (request.ranks < 1 || request.ranks > max_ranks) {
    fail_input("a pipeline has 1 to {} ranks, not {}", max_ranks, request.ranks);
  }
  if (request.micro_batches < 1) {
    fail_input("a pipeline requires at least 1 micro-batch per step, not {}",
               request.micro_batches);
  }
  if (placement.chunks > 32000) fail_input("{} virtual stages are too many", placement.chunks);
  const std::int64_t stages = std::int64_t{placement.ranks} * placement.chunks;
  if (stages * request.micro_batches > max_actions) {
    fail_input("{} stages x {} micro-batches are too many for one schedule", stages,
               request.micro_batches);
  }
  const auto count = static_cast<std::int64_t>(request.times.size());
  if (count != 1 && count != stages) {
    fail_input("times are given for {}, but there are {}: give one for all, or one per stage",
               counted(count, "stage"), stages);
  }
  for (const PassTimes& t : request.times) {
    for (const double time : {t.forward, t.input_grad, t.weight_grad}) {
      if (!(time >= 0) || !std::isfinite(time))
        fail_input("a pass cannot take {} units of time", time);
    }
  }
}

PassMaker passes_of(const ScheduleRequest& request, const StagePlacement& placement) {
#define TRIREME_SCHEDULE_PASSES(kind, ...) kind##_passes,
  static constexpr PassMaker (*passes[])(
      const ScheduleRequest&, const StagePlacement&) = {TRIREME_SCHEDULES(TRIREME_SCHEDULE_PASSES)};
#undef TRIREME_SCHEDULE_PASSES
  return passes[static_cast<std::size_t>(request.kind)](request, placement);
}

// Number of micro-batches after which a step usually becomes periodic. If they are processed in
// groups, the larger groups come first.
int settled_after(const ScheduleRequest& request) {
  const int p = request.ranks;
  const int groups = entry_of(request.kind).in_groups ? request.micro_batches % p : 0;
  return std::max(8 * p, (groups + 6) * p);
}

}  // namespace

Schedule make_schedule(const ScheduleRequest& request) {
  const StagePlacement placement = place(request);
  validate(request, placement);
  Schedule schedule;
  schedule.kind = request.kind;
  schedule.placement = placement;
  schedule.micro_batches = request.micro_batches;
  const PassMaker order = passes_of(request, placement);
  const auto write = [&](int micro_batches) {
    return with_early_receives(with_transfers(order(micro_batches), placement, request.times),
                               request.early_receives);
  };
  if (request.written_out) {
    schedule.actions = write(request.micro_batches);
  } else {
    write_lists(schedule, settled_after(request), write);
  }
  return schedule;
}

}  // namespace trireme
