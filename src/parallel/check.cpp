// Rules of a single rank's list, and the report over a simulated run.
#include "parallel/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "parallel/action_walk.h"
#include "parallel/simulate.h"

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

// What has happened to one micro-batch in one chunk so far.
struct Progress {
  bool forward = false, input_grad = false, weight_grad = false;
  bool activation_posted = false, gradient_posted = false;
  bool activation_sent = false, gradient_sent = false;
};

// Walks one rank's list and refuses the first action that breaks a rule.
class ListChecker {
 public:
  ListChecker(const Schedule& schedule, int rank)
      : schedule_(schedule),
        place_(schedule.placement),
        rank_(rank),
        progress_(static_cast<std::size_t>(schedule.chunks()) * schedule.micro_batches),
        next_(schedule.chunks()),
        reduced_(schedule.chunks()) {}

  void run() {
    ActionWalk walk(schedule_, rank_);
    for (index_ = 0; (action_ = walk.next()); ++index_) {
      const Action& action = *action_;
      require(action.chunk >= 0 && action.chunk < schedule_.chunks() && action.micro_batch >= 0 &&
                  action.micro_batch < schedule_.micro_batches,
              "there is no such micro-batch or chunk");
      require(!stepped_, "nothing may follow the step");
      check(action);
    }
    for (int chunk = 0; chunk < schedule_.chunks(); ++chunk) check_complete(chunk);
    if (!stepped_) fail("the schedule of rank {} has no step", rank_);
  }

 private:
  void require(bool condition, const char* rule) const {
    if (!condition)
      fail("{} is out of place: {}", describe(schedule_, rank_, index_, *action_), rule);
  }

  Progress& at(int chunk, int micro_batch) {
    return progress_[static_cast<std::size_t>(chunk) * schedule_.micro_batches + micro_batch];
  }

  int rank_of_stage(int stage) const {
    return stage < 0 || stage >= place_.stages() ? -1 : place_.rank_of(stage);
  }

  void check(const Action& a) {
    const int stage = place_.stage(rank_, a.chunk);
    const int before = rank_of_stage(stage - 1);
    const int after = rank_of_stage(stage + 1);
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
        require(p.forward, "the forward comes first");
        once(p.input_grad);
        in_turn(next_[a.chunk].input_grad, a);
        if (after >= 0) {
          require(after == rank_ ? local(stage + 1, a.micro_batch).input_grad : p.gradient_posted,
                  "its output gradient is not there");
        }
        if (a.kind == ActionKind::backward) check_weight_grad(a, p);
        return;
      case ActionKind::weight_grad:
        require(p.input_grad, "the input gradient comes first");
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
                "weight gradients are still to come, or it happened already");
        reduced_[a.chunk] = true;
        return;
      case ActionKind::step:
        stepped_ = true;
        return;
    }
  }

  Progress& local(int stage, int micro_batch) { return at(place_.chunk_of(stage), micro_batch); }

  void once(bool& happened) const {
    require(!happened, "it happened already");
    happened = true;
  }

  // Buffers are reused in turn, and weight gradients add up in one order for every schedule.
  void in_turn(int& next, const Action& a) const {
    require(next == a.micro_batch, "micro-batches of a chunk go in ascending order");
    ++next;
  }

  void check_weight_grad(const Action& a, Progress& p) {
    once(p.weight_grad);
    in_turn(next_[a.chunk].weight_grad, a);
  }

  void check_message(const Action& a, bool& happened, int peer) const {
    once(happened);
    require(peer >= 0 && peer != rank_, "this stage has no neighbour on another rank there");
    require(a.peer == peer, "it names the wrong peer");
  }

  void check_complete(int chunk) {
    const int stage = place_.stage(rank_, chunk);
    const bool needs_before = rank_of_stage(stage - 1) >= 0 && rank_of_stage(stage - 1) != rank_;
    const bool needs_after = rank_of_stage(stage + 1) >= 0 && rank_of_stage(stage + 1) != rank_;
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

// Counts up and down, and keeps the highest.
struct Counter {
  int now = 0;
  int peak = 0;

  void add(int change) {
    now += change;
    peak = std::max(peak, now);
  }
};

void count_buffers(const Schedule& schedule, int rank, RankReport& report) {
  struct Counters {
    Counter activations, gradients, weight_grads;
  };
  const StagePlacement& place = schedule.placement;
  std::vector<Counters> chunks(schedule.chunks());
  Counter in_flight;
  ActionWalk walk(schedule, rank);
  while (const Action* action = walk.next()) {
    const Action& a = *action;
    const int stage = place.stage(rank, a.chunk);
    const bool fed = stage > 0 && place.rank_of(stage - 1) != rank;
    const bool fed_back = stage + 1 < place.stages() && place.rank_of(stage + 1) != rank;
    Counters& c = chunks[a.chunk];
    switch (a.kind) {
      case ActionKind::receive_activation:
        c.activations.add(1);
        break;
      case ActionKind::receive_gradient:
        c.gradients.add(1);
        break;
      case ActionKind::forward:
        in_flight.add(1);
        if (fed) c.activations.add(-1);
        break;
      case ActionKind::input_grad:
        c.weight_grads.add(1);
        if (fed_back) c.gradients.add(-1);
        break;
      case ActionKind::backward:
      case ActionKind::weight_grad:
        if (a.kind == ActionKind::backward && fed_back) c.gradients.add(-1);
        if (a.kind == ActionKind::weight_grad) c.weight_grads.add(-1);
        in_flight.add(-1);
        break;
      default:
        if (is_send(a.kind)) ++report.sends;
    }
  }
  report.peak_in_flight = in_flight.peak;
  for (const Counters& c : chunks) {
    report.buffers.push_back({c.activations.peak, c.gradients.peak, c.weight_grads.peak});
  }
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
  ScheduleReport report;
  report.ranks.resize(schedule.ranks());
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    ListChecker(schedule, rank).run();
    count_buffers(schedule, rank, report.ranks[rank]);
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

namespace {

std::string count(double number, const char* one, const char* many) {
  return fmt::format("{:g} {}", number, number == 1 ? one : many);
}

}  // namespace

std::string title(const Schedule& schedule) {
  return fmt::format(
      "{}, {}{}, {} micro-batch{}", name_of(schedule.kind),
      count(schedule.ranks(), "rank", "ranks"),
      schedule.chunks() > 1 ? fmt::format(" x {} virtual stages", schedule.chunks()) : "",
      schedule.micro_batches, schedule.micro_batches == 1 ? "" : "es");
}

std::string costs_text(const ScheduleReport& report) {
  return fmt::format(
      "ranks are idle for {:.1f}% of a step ({:.1f}% without fill and drain), hold the activations "
      "of at most {} and send {} message{}",
      100 * report.bubble, 100 * report.stall_rate,
      count(report.peak_memory, "micro-batch", "micro-batches"), report.messages,
      report.messages == 1 ? "" : "s");
}

std::string summary(const Schedule& schedule, const ScheduleReport& report) {
  return title(schedule) + ": " + costs_text(report);
}

}  // namespace trireme
