// Every transfer is assigned one time, the end of the producing pass in the ideal run, and both
// ends insert it into their lists at that time. All lists are thus consistent with one global order
// of events, so even blocking sends and receives cannot deadlock, and messages between two ranks
// have the same order on both sides.
#include "parallel/states/transfers.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "parallel/schedule/timeline.h"

namespace trireme {
namespace {

struct Event {
  double time;
  int order;  // transfers before passes that start at the same time
  int stage;  // of the producer: the same tie-break on both sides
  Action action;

  auto key() const { return std::make_tuple(time, order, stage, action.micro_batch); }
};

// The stage that consumes what a pass produces; -1 if none.
int consumer_stage(const Action& action, int stage, const StagePlacement& placement) {
  if (action.kind == ActionKind::forward) {
    return stage + 1 < placement.stages() ? stage + 1 : -1;
  }
  return action.kind == ActionKind::weight_grad ? -1 : stage - 1;
}

void add_transfer(std::vector<std::vector<Event>>& events, const StagePlacement& placement,
                  int rank, const Action& action, double end) {
  const int stage = placement.stage(rank, action.chunk);
  const int consumer = consumer_stage(action, stage, placement);
  if (consumer < 0) return;
  const int other = placement.rank_of(consumer);
  if (other == rank) return;
  const bool forward = action.kind == ActionKind::forward;
  events[rank].push_back({end,
                          0,
                          stage,
                          {forward ? ActionKind::send_activation : ActionKind::send_gradient,
                           action.chunk, action.micro_batch, other}});
  events[other].push_back(
      {end,
       0,
       stage,
       {forward ? ActionKind::receive_activation : ActionKind::receive_gradient,
        static_cast<std::int16_t>(placement.chunk_of(consumer)), action.micro_batch, rank}});
}

// Reductions may start after the last micro-batch of a chunk has its weight gradients.
std::vector<Action> with_reductions(std::vector<Action> actions, int chunks) {
  std::vector<Action> result;
  std::vector<std::size_t> last(chunks);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const ActionKind kind = actions[i].kind;
    if (kind == ActionKind::weight_grad || kind == ActionKind::backward) {
      last[actions[i].chunk] = i;
    }
  }
  // Sends go first, since other ranks wait for them.
  std::vector<Action> due;
  const auto reduce_what_is_due = [&] {
    result.insert(result.end(), due.begin(), due.end());
    due.clear();
  };
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (!is_send(actions[i].kind)) reduce_what_is_due();
    result.push_back(actions[i]);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      if (last[chunk] == i)
        due.push_back({ActionKind::reduce_gradients, static_cast<std::int16_t>(chunk), 0, -1});
    }
  }
  reduce_what_is_due();
  result.push_back({ActionKind::step, 0, 0, -1});
  return result;
}

}  // namespace

std::vector<std::vector<Action>> with_transfers(const PassOrder& order,
                                                const StagePlacement& placement,
                                                const std::vector<PassTimes>& times) {
  const auto spans = time_order(order, placement, times);
  TRIREME_CHECK(!spans.empty());
  std::vector<std::vector<Event>> events(order.size());
  for (int rank = 0; rank < placement.ranks; ++rank) {
    for (std::size_t i = 0; i < order[rank].size(); ++i) {
      const Action& action = order[rank][i];
      // Passes of a rank start at different times unless their duration is 0: then `i` decides.
      events[rank].push_back({spans[rank][i].begin, 1, static_cast<int>(i), action});
      add_transfer(events, placement, rank, action, spans[rank][i].end);
    }
  }
  std::vector<std::vector<Action>> lists;
  for (auto& of_rank : events) {
    std::stable_sort(of_rank.begin(), of_rank.end(),
                     [](const Event& a, const Event& b) { return a.key() < b.key(); });
    std::vector<Action> actions;
    actions.reserve(of_rank.size());
    for (const Event& event : of_rank) actions.push_back(event.action);
    lists.push_back(with_reductions(std::move(actions), placement.chunks));
  }
  return lists;
}

std::vector<std::vector<Action>> with_early_receives(std::vector<std::vector<Action>> lists,
                                                     int passes) {
  if (passes == 0) return lists;
  struct Placed {
    int after;  // number of compute actions before it
    bool receive;
    Action action;
  };
  std::vector<Placed> placed;
  for (auto& actions : lists) {
    placed.clear();
    int computed = 0;
    for (const Action& action : actions) {
      const bool receive = is_receive(action.kind);
      placed.push_back({receive ? std::max(0, computed - passes) : computed, receive, action});
      if (is_compute(action.kind)) ++computed;
    }
    // Receives precede all else between the same two passes, and keep their order.
    std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
      return std::make_tuple(a.after, !a.receive) < std::make_tuple(b.after, !b.receive);
    });
    for (std::size_t i = 0; i < actions.size(); ++i) actions[i] = placed[i].action;
  }
  return lists;
}

}  // namespace trireme
