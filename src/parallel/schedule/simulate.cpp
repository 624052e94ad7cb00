// Event-driven: each rank advances as far as it can and resumes when one of its transfers ends.
#include "parallel/schedule/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/counted.h"
#include "base/error.h"

namespace trireme {
namespace {

struct Transfer {
  int ranks[2] = {-1, -1};        // sender, receiver
  std::size_t index[2] = {0, 0};  // in their lists
  double reached[2] = {-1, -1};   // when each side is ready
  double end = -1;
};

// The stage whose data an action sends or receives, which is the producer's.
int stage_of_data(const StagePlacement& place, int rank, const Action& a) {
  const int stage = place.stage(rank, a.chunk);
  if (a.kind == ActionKind::receive_activation) return stage - 1;
  return a.kind == ActionKind::receive_gradient ? stage + 1 : stage;
}

class Simulation {
 public:
  Simulation(const Schedule& schedule, const CheckOptions& options)
      : schedule_(schedule), options_(options), ranks_(schedule.ranks()) {
    match_transfers();
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      ranks_[rank].spans.resize(schedule.actions[rank].size());
    }
  }

  std::vector<std::vector<Span>> run() {
    for (int rank = schedule_.ranks() - 1; rank >= 0; --rank) to_visit_.push_back(rank);
    while (!to_visit_.empty()) {
      const int rank = to_visit_.back();
      to_visit_.pop_back();
      while (advance_queue(rank) | advance_list(rank)) {
      }
    }
    refuse_deadlock();
    std::vector<std::vector<Span>> spans;
    for (Rank& rank : ranks_) spans.push_back(std::move(rank.spans));
    return spans;
  }

 private:
  struct Rank {
    std::size_t next = 0;  // action
    double clock = 0;
    std::vector<std::size_t> messages;   // its sends and receives, by position in its list
    std::vector<std::size_t> transfers;  // which transfer each of them is
    std::size_t posted = 0;              // of them, reached by the list
    std::size_t queued = 0;              // of them, done by the queue (TransferModel::queued)
    std::vector<double> posted_at;
    double queue_clock = 0;
    std::map<std::pair<int, int>, std::size_t> activation, gradient;  // (chunk, micro-batch)
    std::vector<Span> spans;
  };

  void match_transfers() {
    using Pair = std::pair<int, int>;  // from, to
    std::map<Pair, std::vector<std::size_t>> sends, receives;
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      const auto& actions = schedule_.actions[rank];
      for (std::size_t i = 0; i < actions.size(); ++i) {
        if (is_send(actions[i].kind)) sends[{rank, actions[i].peer}].push_back(i);
        if (is_receive(actions[i].kind)) receives[{actions[i].peer, rank}].push_back(i);
      }
    }
    std::map<std::pair<int, std::size_t>, std::size_t> transfer_of;
    for (const auto& [pair, from] : sends) {
      const auto& to = receives[pair];
      if (from.size() != to.size()) {
        fail("rank {} sends {} messages to rank {}, which receives {}", pair.first, from.size(),
             pair.second, to.size());
      }
      for (std::size_t k = 0; k < from.size(); ++k) {
        check_match(pair.first, from[k], pair.second, to[k]);
        transfer_of[{pair.first, from[k]}] = transfers_.size();
        transfer_of[{pair.second, to[k]}] = transfers_.size();
        transfers_.push_back({{pair.first, pair.second}, {from[k], to[k]}});
      }
    }
    for (const auto& [key, transfer] : transfer_of) add_message(key.first, key.second, transfer);
  }

  void check_match(int from, std::size_t send, int to, std::size_t receive) const {
    const Action& s = schedule_.actions[from][send];
    const Action& r = schedule_.actions[to][receive];
    const bool same_kind =
        (s.kind == ActionKind::send_activation) == (r.kind == ActionKind::receive_activation);
    if (same_kind && s.micro_batch == r.micro_batch &&
        stage_of_data(schedule_.placement, from, s) == stage_of_data(schedule_.placement, to, r)) {
      return;
    }
    fail("messages do not match: {} would be paired with {}", describe(schedule_, from, send),
         describe(schedule_, to, receive));
  }

  void add_message(int rank, std::size_t index, std::size_t transfer) {
    Rank& r = ranks_[rank];
    const Action& a = schedule_.actions[rank][index];
    r.messages.push_back(index);
    r.transfers.push_back(transfer);
    r.posted_at.push_back(0);
    const std::pair<int, int> key{a.chunk, a.micro_batch};
    if (a.kind == ActionKind::receive_activation) r.activation[key] = transfer;
    if (a.kind == ActionKind::receive_gradient) r.gradient[key] = transfer;
  }

  // Marks one side of a transfer as ready. The transfer starts when both are.
  void reach(int rank, Transfer& transfer, double time) {
    const int side = transfer.ranks[0] == rank ? 0 : 1;
    if (transfer.reached[side] >= 0) return;
    transfer.reached[side] = time;
    if (transfer.reached[1 - side] < 0) return;
    transfer.end = std::max(time, transfer.reached[1 - side]) + options_.transfer_time;
    for (int s = 0; s < 2; ++s) {
      ranks_[transfer.ranks[s]].spans[transfer.index[s]] = {transfer.reached[s], transfer.end};
    }
    to_visit_.push_back(transfer.ranks[1 - side]);
  }

  bool advance_queue(int rank) {
    if (options_.model != TransferModel::queued) return false;
    Rank& r = ranks_[rank];
    bool moved = false;
    while (r.queued < r.posted) {
      Transfer& transfer = transfers_[r.transfers[r.queued]];
      reach(rank, transfer, std::max(r.queue_clock, r.posted_at[r.queued]));
      if (transfer.end < 0) return moved;
      r.queue_clock = transfer.end;
      ++r.queued;
      moved = true;
    }
    return moved;
  }

  bool advance_list(int rank) {
    Rank& r = ranks_[rank];
    const auto& actions = schedule_.actions[rank];
    bool moved = false;
    while (r.next < actions.size()) {
      const Action& action = actions[r.next];
      const bool message = is_send(action.kind) || is_receive(action.kind);
      if (message ? !post(rank) : !compute(rank, action)) return moved;
      ++r.next;
      moved = true;
    }
    return moved;
  }

  bool post(int rank) {
    Rank& r = ranks_[rank];
    Transfer& transfer = transfers_[r.transfers[r.posted]];
    if (options_.model == TransferModel::queued) {
      r.posted_at[r.posted] = r.clock;
    } else {
      reach(rank, transfer, r.clock);
      if (options_.model == TransferModel::blocking) {
        if (transfer.end < 0) return false;
        r.clock = transfer.end;
      }
    }
    ++r.posted;
    return true;
  }

  bool compute(int rank, const Action& action) {
    Rank& r = ranks_[rank];
    double begin = r.clock;
    if (const Transfer* transfer = input_of(r, action)) {
      if (transfer->end < 0) return false;
      begin = std::max(begin, transfer->end);
    }
    const int stage = schedule_.placement.stage(rank, action.chunk);
    r.clock = begin + duration(action, stage, options_.times);
    r.spans[r.next] = {begin, r.clock};
    return true;
  }

  const Transfer* input_of(const Rank& r, const Action& a) const {
    const auto& arrivals = a.kind == ActionKind::forward ? r.activation : r.gradient;
    if (!is_compute(a.kind) || a.kind == ActionKind::weight_grad) return nullptr;
    const auto found = arrivals.find({a.chunk, a.micro_batch});
    return found == arrivals.end() ? nullptr : &transfers_[found->second];
  }

  void refuse_deadlock() const {
    std::string stuck;
    int count = 0;
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      const std::size_t next = ranks_[rank].next;
      if (next == schedule_.actions[rank].size()) continue;
      if (++count <= 4) stuck += (stuck.empty() ? "" : "; ") + describe(schedule_, rank, next);
    }
    if (count > 0)
      fail("the schedule deadlocks with {} blocked, at {}", counted(count, "rank"), stuck);
  }

  const Schedule& schedule_;
  const CheckOptions& options_;
  std::vector<Rank> ranks_;
  std::vector<Transfer> transfers_;
  std::vector<int> to_visit_;
};

}  // namespace

std::vector<std::vector<Span>> simulate(const Schedule& schedule, const CheckOptions& options) {
  return Simulation(schedule, options).run();
}

}  // namespace trireme
