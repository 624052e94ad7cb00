// Names of schedules, what each allows, and how one is made.
#include "parallel/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "parallel/action_walk.h"
#include "parallel/orders.h"
#include "parallel/timeline.h"
#include "parallel/transfers.h"

namespace trireme {

std::string_view name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::gpipe:
      return "gpipe";
    case ScheduleKind::one_f_one_b:
      return "1f1b";
    case ScheduleKind::interleaved:
      return "interleaved";
    case ScheduleKind::zb1p:
      return "zb1p";
    case ScheduleKind::zbv:
      return "zbv";
    case ScheduleKind::vhalf:
      return "vhalf";
  }
  return "?";
}

ScheduleKind parse_schedule(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(ScheduleKind::vhalf); ++i) {
    const auto kind = static_cast<ScheduleKind>(i);
    if (name == name_of(kind)) return kind;
  }
  fail_input("parallel.schedule is '{}'; it must be gpipe, 1f1b, interleaved, zb1p, zbv or vhalf",
             name);
}

bool splits_backward(ScheduleKind kind) {
  return kind == ScheduleKind::zb1p || kind == ScheduleKind::zbv || kind == ScheduleKind::vhalf;
}

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
  const ScheduleKind kind = request.kind;
  const bool v_shaped = kind == ScheduleKind::zbv || kind == ScheduleKind::vhalf;
  const bool interleaved = kind == ScheduleKind::interleaved;
  const int chunks = request.chunks ? request.chunks : v_shaped || interleaved ? 2 : 1;
  const std::string_view name = name_of(kind);
  if (v_shaped && chunks != 2) {
    fail_input("schedule {} folds the model once: set parallel.virtual_stages = 2, not {}", name,
               chunks);
  }
  if (interleaved && chunks < 2) {
    fail_input(
        "schedule interleaved needs parallel.virtual_stages of 2 or more; with 1 it is 1f1b");
  }
  if (!v_shaped && !interleaved && chunks != 1) {
    fail_input(
        "schedule {} has one stage per rank: set parallel.virtual_stages = 1 instead of {}, or "
        "parallel.schedule = \"interleaved\"",
        name, chunks);
  }
  return {request.ranks, chunks, v_shaped};
}

void validate(const ScheduleRequest& request, const StagePlacement& placement) {
  if (request.ranks < 1 || request.ranks > max_ranks) {
    fail_input("a pipeline has 1 to {} ranks, not {}", max_ranks, request.ranks);
  }
  if (request.micro_batches < 1) {
    fail_input("a pipeline needs at least 1 micro-batch per step, not {}", request.micro_batches);
  }
  if (placement.chunks > 32000) fail_input("{} virtual stages are too many", placement.chunks);
  const std::int64_t stages = std::int64_t{placement.ranks} * placement.chunks;
  if (stages * request.micro_batches > max_actions) {
    fail_input("{} stages x {} micro-batches are too many for one schedule", stages,
               request.micro_batches);
  }
  const auto count = static_cast<std::int64_t>(request.times.size());
  if (count != 1 && count != stages) {
    fail_input("times are given for {} stages, but there are {}: give one for all, or one each",
               count, stages);
  }
  for (const PassTimes& t : request.times) {
    for (const double time : {t.forward, t.input_grad, t.weight_grad}) {
      if (!(time >= 0) || !std::isfinite(time))
        fail_input("a pass cannot take {} units of time", time);
    }
  }
}

// Makes the order of passes for any number of micro-batches.
using OrderMaker = std::function<PassOrder(int)>;

// Places weight gradients into the order that comes out best. Candidates are compared on the first
// micro-batches of a step, which show how it runs in, repeats and runs out. First comes memory
// within the limit, then time; of equals the first, so that every rank decides alike.
OrderMaker fill_best(const std::vector<OrderMaker>& candidates, const ScheduleRequest& request,
                     const StagePlacement& placement, int limit) {
  struct Choice {
    const OrderMaker* make = nullptr;
    double patience = 1;
    int peak = INT_MAX;
    double length = INFINITY;
  } best;
  const int sample = std::min(request.micro_batches, 4 * request.ranks);
  for (const auto& make : candidates) {
    const PassOrder order = make(sample);
    for (const double patience : {1.0, 0.5, 0.0}) {
      const PassOrder filled = with_weight_grads(order, placement, request.times, limit, patience);
      const int peak = std::max(limit, peak_in_flight(filled));
      const double length = makespan(time_order(filled, placement, request.times));
      if (peak < best.peak || (peak == best.peak && length < best.length * (1 - 1e-9))) {
        best = {&make, patience, peak, length};
      }
    }
  }
  return [=, make = *best.make, patience = best.patience, times = request.times](int m) {
    return with_weight_grads(make(m), placement, times, limit, patience);
  };
}

OrderMaker zero_bubble_order(const ScheduleRequest& request, const StagePlacement& placement) {
  const int p = request.ranks;
  if (request.kind == ScheduleKind::zb1p) {
    // What the first rank of 1F1B holds at its peak, every rank may hold.
    return fill_best({[=](int m) { return one_f_one_b_order(p, m, true); }}, request, placement, p);
  }
  if (request.kind == ScheduleKind::zbv) {
    return fill_best({[=](int m) { return zbv_order(p, m); }}, request, placement, 2 * p);
  }
  std::vector<OrderMaker> candidates;
  for (const VHalfBlock& block : vhalf_blocks(p)) {
    candidates.emplace_back([=](int m) { return vhalf_order(block, p, m); });
  }
  // The least that keeps the bubble below half of 1F1B's; of 2 p chunks that 1F1B would hold.
  const int limit = p % 2 || p == 2 ? p + 1 : p + 2;
  return fill_best(candidates, request, placement, limit);
}

OrderMaker order_of(const ScheduleRequest& request, const StagePlacement& placement) {
  const int p = request.ranks;
  switch (request.kind) {
    case ScheduleKind::gpipe:
      return [=](int m) { return gpipe_order(p, m); };
    case ScheduleKind::one_f_one_b:
      return [=](int m) { return one_f_one_b_order(p, m, false); };
    case ScheduleKind::interleaved:
      return [=](int m) { return interleaved_order(p, m, placement.chunks); };
    default:
      return zero_bubble_order(request, placement);
  }
}

// After so many micro-batches the middle of a step repeats itself, as a rule. Interleaved passes
// first take the groups that are larger by one.
int settled_after(const ScheduleRequest& request) {
  const int p = request.ranks;
  const int groups = request.kind == ScheduleKind::interleaved ? request.micro_batches % p : 0;
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
  const OrderMaker order = order_of(request, placement);
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
