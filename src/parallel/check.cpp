// Checks the rules of each rank's list, and reports on the simulated run.
#include "parallel/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "parallel/schedule/action_walk.h"
#include "parallel/schedule/simulate.h"

namespace trireme {

std::string describe(const Schedule& schedule, int rank, std::size_t index) {
  return describe(schedule, rank, index, schedule.actions[rank][index]);
}

std::string describe(const Schedule& schedule, int rank, std::size_t index, const Action& a) {
  std::string text = fmt::format("rank {}, action {}: {}", rank, index, name_of(a.kind));
  if (a.kind == ActionKind::step) return text;
  if (a.kind != ActionKind::reduce_gradients)
    text += fmt::format(" of micro-batch {}", a.micro_batch);
  if (schedule.chunks() > 1) text += fmt::format(", chunk {}", a.chunk);
  if (a.peer >= 0) text += fmt::format(", peer {}", a.peer);
  return text;
}

namespace {

// Progress of one micro-batch in one chunk.
struct Progress {
  bool forward = false, input_grad = false, weight_grad = false;
  bool activation_posted = false, gradient_posted = false;
  bool activation_sent = false, gradient_sent = false;
};

// The ranks of the stages before and after a chunk; -1: none.
struct Neighbors {
  int stage = 0, before = -1, after = -1;
};

std::vector<Neighbors> neighbors_of(const Schedule& schedule, int rank) {
  const StagePlacement& place = schedule.placement;
  std::vector<Neighbors> chunks;
  for (int chunk = 0; chunk < schedule.chunks(); ++chunk) {
    const int stage = place.stage(rank, chunk);
    chunks.push_back({stage, stage > 0 ? place.rank_of(stage - 1) : -1,
                      stage + 1 < place.stages() ? place.rank_of(stage + 1) : -1});
  }
  return chunks;
}

// Fails on the first action of a rank's list that violates a rule.
class ListChecker {
 public:
  ListChecker(const Schedule& schedule, int rank)
      : schedule_(schedule),
        place_(schedule.placement),
        neighbors_(neighbors_of(schedule, rank)),
        rank_(rank),
        progress_(static_cast<std::size_t>(schedule.chunks()) * schedule.micro_batches),
        next_(schedule.chunks()),
        reduced_(schedule.chunks()) {}

  // Checks the next action of the list.
  void add(const Action& action) {
    action_ = &action;
    require(action.chunk >= 0 && action.chunk < schedule_.chunks() && action.micro_batch >= 0 &&
                action.micro_batch < schedule_.micro_batches,
            "there is no such micro-batch or chunk");
    require(!stepped_, "nothing may follow the step");
    check(action);
    ++index_;
  }

  // Checks the state after the last action.
  void finish() {
    for (int chunk = 0; chunk < schedule_.chunks(); ++chunk) check_complete(chunk);
    if (!stepped_) fail("the schedule of rank {} has no step", rank_);
  }

 private:
  void require(bool condition, const char* rule) const {
    if (!condition) fail("{} is invalid: {}", describe(schedule_, rank_, index_, *action_), rule);
  }

  Progress& at(int chunk, int micro_batch) {
    return progress_[static_cast<std::size_t>(chunk) * schedule_.micro_batches + micro_batch];
  }

  void check(const Action& a) {
    const auto [stage, before, after] = neighbors_[static_cast<std::size_t>(a.chunk)];
    Progress& p = at(a.chunk, a.micro_batch);
    switch (a.kind) {
      case ActionKind::forward:
        once(p.forward);
        in_turn(next_[a.chunk].forward, a);
        if (before >= 0) {
          require(before == rank_ ? local(stage - 1, a.micro_batch).forward : p.activation_posted,
                  "its input is not there");
        }
        return;
      case ActionKind::backward:
      case ActionKind::input_grad:
        require(p.forward, "the forward pass must come first");
        once(p.input_grad);
        in_turn(next_[a.chunk].input_grad, a);
        if (after >= 0) {
          require(after == rank_ ? local(stage + 1, a.micro_batch).input_grad : p.gradient_posted,
                  "its output gradient is not there");
        }
        if (a.kind == ActionKind::backward) check_weight_grad(a, p);
        return;
      case ActionKind::weight_grad:
        require(p.input_grad, "the input gradient must come first");
        check_weight_grad(a, p);
        return;
      case ActionKind::receive_activation:
        check_message(a, p.activation_posted, before);
        return;
      case ActionKind::receive_gradient:
        check_message(a, p.gradient_posted, after);
        return;
      case ActionKind::send_activation:
        require(p.forward, "there is nothing to send yet");
        check_message(a, p.activation_sent, after);
        return;
      case ActionKind::send_gradient:
        require(p.input_grad, "there is nothing to send yet");
        check_message(a, p.gradient_sent, before);
        return;
      case ActionKind::reduce_gradients:
        require(next_[a.chunk].weight_grad == schedule_.micro_batches && !reduced_[a.chunk],
                "weight gradients are still missing, or it has already happened");
        reduced_[a.chunk] = true;
        return;
      case ActionKind::step:
        stepped_ = true;
        return;
    }
  }

  Progress& local(int stage, int micro_batch) { return at(place_.chunk_of(stage), micro_batch); }

  void once(bool& happened) const {
    require(!happened, "it has already happened");
    happened = true;
  }

  // Buffers are reused in order, and every schedule must sum weight gradients in the same order.
  void in_turn(int& next, const Action& a) const {
    require(next == a.micro_batch, "micro-batches of a chunk must be in ascending order");
    ++next;
  }

  void check_weight_grad(const Action& a, Progress& p) {
    once(p.weight_grad);
    in_turn(next_[a.chunk].weight_grad, a);
  }

  void check_message(const Action& a, bool& happened, int peer) const {
    once(happened);
    require(peer >= 0 && peer != rank_,
            "this stage has no neighbor on another rank in this direction");
    require(a.peer == peer, "it names the wrong peer");
  }

  void check_complete(int chunk) {
    const Neighbors& n = neighbors_[static_cast<std::size_t>(chunk)];
    const bool needs_before = n.before >= 0 && n.before != rank_;
    const bool needs_after = n.after >= 0 && n.after != rank_;
    for (int m = 0; m < schedule_.micro_batches; ++m) {
      const Progress& p = at(chunk, m);
      const bool complete = p.forward && p.input_grad && p.weight_grad &&
                            p.activation_posted == needs_before &&
                            p.gradient_sent == needs_before && p.activation_sent == needs_after &&
                            p.gradient_posted == needs_after;
      if (!complete) {
        fail("the schedule of rank {} does not finish micro-batch {} of chunk {}", rank_, m, chunk);
      }
    }
    if (!reduced_[chunk]) fail("the schedule of rank {} never reduces chunk {}", rank_, chunk);
  }

  const Schedule& schedule_;
  StagePlacement place_;
  std::vector<Neighbors> neighbors_;  // by chunk
  int rank_;
  std::size_t index_ = 0;
  const Action* action_ = nullptr;
  std::vector<Progress> progress_;
  struct Next {
    int forward = 0, input_grad = 0, weight_grad = 0;
  };
  std::vector<Next> next_;  // micro-batches, by chunk
  std::vector<bool> reduced_;
  bool stepped_ = false;
};

// A counter that remembers its maximum.
struct Counter {
  int now = 0;
  int peak = 0;

  void add(int change) {
    now += change;
    peak = std::max(peak, now);
  }
};

// Counts the buffers in use at the same time in a rank's list.
class BufferCounter {
 public:
  BufferCounter(const Schedule& schedule, int rank) {
    for (const Neighbors& n : neighbors_of(schedule, rank))
      chunks_.push_back({n.before >= 0 && n.before != rank, n.after >= 0 && n.after != rank});
  }

  // Processes the next action of the list.
  void add(const Action& a) {
    Chunk& c = chunks_[static_cast<std::size_t>(a.chunk)];
    switch (a.kind) {
      case ActionKind::receive_activation:
        c.activations.add(1);
        break;
      case ActionKind::receive_gradient:
        c.gradients.add(1);
        break;
      case ActionKind::forward:
        in_flight_.add(1);
        if (c.fed) c.activations.add(-1);
        break;
      case ActionKind::input_grad:
        c.weight_grads.add(1);
        if (c.fed_back) c.gradients.add(-1);
        break;
      case ActionKind::backward:
      case ActionKind::weight_grad:
        if (a.kind == ActionKind::backward && c.fed_back) c.gradients.add(-1);
        if (a.kind == ActionKind::weight_grad) c.weight_grads.add(-1);
        in_flight_.add(-1);
        break;
      case ActionKind::send_activation:
      case ActionKind::send_gradient:
        ++sends_;
        break;
      case ActionKind::reduce_gradients:
      case ActionKind::step:
        break;
    }
  }

  RankReport report() const {
    RankReport report;
    report.sends = sends_;
    report.peak_in_flight = in_flight_.peak;
    for (const Chunk& c : chunks_)
      report.buffers.push_back({c.activations.peak, c.gradients.peak, c.weight_grads.peak});
    return report;
  }

 private:
  struct Chunk {
    bool fed = false, fed_back = false;  // receives input from another rank
    Counter activations, gradients, weight_grads;
  };
  std::vector<Chunk> chunks_;
  Counter in_flight_;
  std::int64_t sends_ = 0;
};

// Checks a rank's list and returns its peak buffers and number of sends.
RankReport check_list(const Schedule& schedule, int rank) {
  ListChecker checker(schedule, rank);
  BufferCounter buffers(schedule, rank);
  ActionWalk walk(schedule, rank);
  while (const Action* action = walk.next()) {
    checker.add(*action);
    buffers.add(*action);
  }
  checker.finish();
  return buffers.report();
}

RankTimes times_of(const Schedule& schedule, int rank, const std::vector<Span>& spans) {
  RankTimes times;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (is_compute(schedule.actions[rank][i].kind)) times.add(spans[i]);
  }
  return times;
}

}  // namespace

ScheduleReport check_schedule(const Schedule& schedule, const CheckOptions& options) {
  TRIREME_CHECK(static_cast<int>(schedule.actions.size()) == schedule.ranks());
  ScheduleReport lists;
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    lists.ranks.push_back(check_list(schedule, rank));
  return time_schedule(schedule, lists, options);
}

ScheduleReport time_schedule(const Schedule& schedule, const ScheduleReport& checked,
                             const CheckOptions& options) {
  ScheduleReport report;
  for (const RankReport& rank : checked.ranks) {
    RankReport& copy = report.ranks.emplace_back();
    copy.buffers = rank.buffers;
    copy.peak_in_flight = rank.peak_in_flight;
    copy.sends = rank.sends;
  }
  std::vector<RankTimes> times(schedule.ranks());
  if (schedule.loops.empty()) {
    auto spans = simulate(schedule, options);
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      times[rank] = times_of(schedule, rank, spans[rank]);
      // A message may arrive after the last pass.
      for (const Span& span : spans[rank]) report.makespan = std::max(report.makespan, span.end);
      report.ranks[rank].spans = std::move(spans[rank]);
    }
  } else {
    times = simulate_loops(schedule, options, report);
  }
  for (const RankTimes& t : times) report.makespan = std::max(report.makespan, t.last);
  double idle = 0;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    RankReport& r = report.ranks[rank];
    r.busy = times[rank].busy;
    r.idle = report.makespan - r.busy;
    r.stall = times[rank].last - times[rank].first - r.busy;
    idle += r.idle;
    report.messages += r.sends;
    report.peak_memory =
        std::max(report.peak_memory, static_cast<double>(r.peak_in_flight) / schedule.chunks());
    if (r.stall > report.longest_stall) {
      report.longest_stall = r.stall;
      report.stall_rate = r.stall / (r.stall + r.busy);
    }
  }
  if (report.makespan > 0) report.bubble = idle / (report.makespan * schedule.ranks());
  return report;
}

std::string title(const Schedule& schedule) {
  return fmt::format(
      "{}, {}{}, {}", name_of(schedule.kind), counted(schedule.ranks(), "rank"),
      schedule.chunks() > 1 ? fmt::format(" x {} virtual stages", schedule.chunks()) : "",
      counted(schedule.micro_batches, "micro-batch"));
}

std::string costs_text(const ScheduleReport& report) {
  return fmt::format("bubble {:.1f}%; ranks hold the activations of at most {} and send {}",
                     100 * report.bubble, counted(report.peak_memory, "micro-batch"),
                     counted(report.messages, "message"));
}

std::string summary(const Schedule& schedule, const ScheduleReport& report) {
  return title(schedule) + ": " + costs_text(report);
}

}  // namespace trireme
