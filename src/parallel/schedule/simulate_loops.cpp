// Simulation of long schedules: each rank advances as far as its inputs are known. A ring buffer
// keeps only the end times of each stage's micro-batches in flight.
#include <algorithm>
#include <bit>

#include "base/error.h"
#include "parallel/schedule/action_walk.h"
#include "parallel/schedule/simulate.h"

namespace trireme {
namespace {

// End times of a stage's passes for the most recent micro-batches.
class EndRing {
 public:
  explicit EndRing(std::size_t size) : ends_(size) {}

  // Negative: not known yet.
  double of(int micro_batch) const {
    const Entry& entry = ends_[index(micro_batch)];
    // A stage that needs an entry reads it before the ring buffer wraps around.
    TRIREME_CHECK(entry.micro_batch <= micro_batch);
    return entry.micro_batch == micro_batch ? entry.end : -1;
  }
  void set(int micro_batch, double end) { ends_[index(micro_batch)] = {end, micro_batch}; }

 private:
  struct Entry {
    double end = -1;
    int micro_batch = -1;
  };
  std::size_t index(int micro_batch) const {
    return static_cast<std::size_t>(micro_batch) & (ends_.size() - 1);
  }
  std::vector<Entry> ends_;  // a power of two
};

// Hash of the messages between two ranks in one direction, in order.
struct Messages {
  int peer = -1;
  std::uint64_t sent = 0, received = 0;
};

class LoopSimulation {
 public:
  LoopSimulation(const Schedule& schedule, const CheckOptions& options, int most_in_flight)
      : schedule_(schedule), place_(schedule.placement), options_(options) {
    const auto ring = std::bit_ceil(static_cast<std::size_t>(most_in_flight) + 2);
    forward_.assign(static_cast<std::size_t>(place_.stages()), EndRing(ring));
    backward_ = forward_;
    for (int stage = 0; stage < place_.stages(); ++stage) rank_of_.push_back(place_.rank_of(stage));
    ranks_.reserve(static_cast<std::size_t>(place_.ranks));  // stable addresses: walks own actions
    for (int rank = 0; rank < place_.ranks; ++rank) {
      ranks_.push_back({ActionWalk(schedule, rank)});
      Rank& r = ranks_.back();
      r.action = r.walk.next();
    }
  }

  std::vector<RankTimes> run() {
    for (int rank = place_.ranks - 1; rank >= 0; --rank) call(rank);
    while (!to_visit_.empty()) {
      const int rank = to_visit_.back();
      to_visit_.pop_back();
      ranks_[static_cast<std::size_t>(rank)].called = false;
      advance(rank);
    }
    std::vector<RankTimes> times;
    for (int rank = 0; rank < place_.ranks; ++rank) {
      const Rank& r = ranks_[static_cast<std::size_t>(rank)];
      if (r.action)
        fail("the schedule deadlocks at {}", describe(schedule_, rank, r.index, *r.action));
      times.push_back(r.times);
      for (const Messages& m : r.messages) {
        if (m.sent == messages(m.peer, rank).received) continue;
        fail("rank {} does not send what rank {} receives, in this order", rank, m.peer);
      }
    }
    return times;
  }

 private:
  struct Rank {
    ActionWalk walk;
    const Action* action = nullptr;  // the next one; null at the end
    std::size_t index = 0;           // of it
    double clock = 0;
    bool called = false;
    RankTimes times;
    std::vector<Messages> messages;  // by peer
  };

  void call(int rank) {
    Rank& r = ranks_[static_cast<std::size_t>(rank)];
    if (!r.called) to_visit_.push_back(rank);
    r.called = true;
  }

  void advance(int rank) {
    Rank& r = ranks_[static_cast<std::size_t>(rank)];
    for (; r.action; r.action = r.walk.next(), ++r.index) {
      const Action& a = *r.action;
      if (is_compute(a.kind)) {
        if (!compute(r, a, place_.stage(rank, a.chunk))) return;
      } else if (is_send(a.kind) || is_receive(a.kind)) {
        count_message(rank, a);
      }
    }
  }

  bool compute(Rank& r, const Action& a, int stage) {
    const double ready = inputs(a, stage);
    if (ready < 0) return false;
    const double begin = std::max(r.clock, ready);
    r.clock = begin + duration(a, stage, options_.times);
    r.times.add({begin, r.clock});
    const auto at = static_cast<std::size_t>(stage);
    if (a.kind == ActionKind::forward) {
      forward_[at].set(a.micro_batch, r.clock);
      if (stage + 1 < place_.stages()) call(rank_of_[at + 1]);
    } else if (a.kind != ActionKind::weight_grad) {
      backward_[at].set(a.micro_batch, r.clock);
      if (stage > 0) call(rank_of_[at - 1]);
    }
    return true;
  }

  // Time at which the inputs of a pass are ready; negative: not known yet.
  double inputs(const Action& a, int stage) const {
    const auto at = static_cast<std::size_t>(stage);
    const int m = a.micro_batch;
    if (a.kind == ActionKind::weight_grad) return 0;  // produced by its own rank
    if (a.kind == ActionKind::forward) return stage == 0 ? 0 : forward_[at - 1].of(m);
    return stage + 1 == place_.stages() ? 0 : backward_[at + 1].of(m);
  }

  Messages& messages(int rank, int peer) {
    auto& all = ranks_[static_cast<std::size_t>(rank)].messages;
    for (Messages& m : all) {
      if (m.peer == peer) return m;
    }
    return all.emplace_back(Messages{peer});
  }

  void count_message(int rank, const Action& a) {
    Messages& m = messages(rank, a.peer);
    int stage = place_.stage(rank, a.chunk);  // whose data it is
    if (a.kind == ActionKind::receive_activation) --stage;
    if (a.kind == ActionKind::receive_gradient) ++stage;
    const bool activation =
        a.kind == ActionKind::send_activation || a.kind == ActionKind::receive_activation;
    std::uint64_t& hash = is_send(a.kind) ? m.sent : m.received;
    hash = (hash ^ static_cast<std::uint64_t>(a.micro_batch)) * 0x9E3779B97F4A7C15u +
           static_cast<std::uint64_t>(2 * stage + activation);
    hash ^= hash >> 29;
  }

  const Schedule& schedule_;
  StagePlacement place_;
  const CheckOptions& options_;
  std::vector<int> rank_of_;                 // by stage
  std::vector<EndRing> forward_, backward_;  // by stage
  std::vector<Rank> ranks_;
  std::vector<int> to_visit_;
};

}  // namespace

std::vector<RankTimes> simulate_loops(const Schedule& schedule, const CheckOptions& options,
                                      const ScheduleReport& report) {
  TRIREME_CHECK(options.model == TransferModel::asynchronous && options.transfer_time == 0);
  int most = 0;
  for (const RankReport& rank : report.ranks) most = std::max(most, rank.peak_in_flight);
  return LoopSimulation(schedule, options, most).run();
}

}  // namespace trireme
