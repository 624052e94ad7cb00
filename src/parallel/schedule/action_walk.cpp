// Iteration through loops, and detection of loops.
//
// Loops are found by comparing two lists, the second with one more iteration. Where they diverge,
// the second must repeat its preceding actions, some micro-batches later: that is a loop. From
// there on all actions of the loop's kinds are one iteration later in the second list.
#include "parallel/schedule/action_walk.h"

#include <algorithm>
#include <optional>

namespace trireme {

ActionWalk::ActionWalk(const Schedule& schedule, int rank)
    : schedule_(schedule), list_(schedule.actions[static_cast<std::size_t>(rank)]) {
  stop_ = list_.size();
  if (schedule.loops.empty()) return;
  loops_ = &schedule.loops[static_cast<std::size_t>(rank)];
  if (!loops_->empty()) stop_ = loops_->front().end;
  offsets_.resize(static_cast<std::size_t>(schedule.chunks()) * action_kinds);
}

bool ActionWalk::turn_back() {
  while (loops_ && loop_ < loops_->size() && position_ == (*loops_)[loop_].end) {
    if (turn_ == schedule_.more_turns) {
      leave_loop();
    } else {
      ++turn_;
      position_ = (*loops_)[loop_].begin;
    }
  }
  stop_ = loops_ && loop_ < loops_->size() ? (*loops_)[loop_].end : list_.size();
  return position_ != list_.size();
}

void ActionWalk::leave_loop() {
  const Loop& loop = (*loops_)[loop_++];
  for (std::size_t i = loop.begin; i < loop.end; ++i)
    offsets_[slot_of(list_[i])] = schedule_.more_turns * schedule_.turn;
  turn_ = 0;
}

std::vector<Action> all_actions(const Schedule& schedule, int rank) {
  std::vector<Action> actions;
  ActionWalk walk(schedule, rank);
  while (const Action* action = walk.next()) actions.push_back(*action);
  return actions;
}

namespace {

// Compares two lists of one rank, the second with `turn` more micro-batches.
class LoopFinder {
 public:
  LoopFinder(const std::vector<Action>& fewer, const std::vector<Action>& more, int turn,
             int chunks)
      : fewer_(fewer),
        more_(more),
        turn_(turn),
        later_(static_cast<std::size_t>(chunks) * action_kinds) {}

  std::optional<std::vector<Loop>> run() {
    while (j_ < more_.size()) {
      if (i_ < fewer_.size() && same(fewer_[i_], more_[j_], later_[slot_of(fewer_[i_])])) {
        ++i_;
        ++j_;
      } else if (!add_loop()) {
        return std::nullopt;
      }
    }
    if (i_ < fewer_.size()) return std::nullopt;
    return std::move(loops_);
  }

 private:
  bool same(const Action& a, Action b, bool later) const {
    b.micro_batch -= later ? turn_ : 0;
    return a == b;
  }

  bool repeats(std::size_t length) const {
    for (std::size_t k = j_; k < j_ + length; ++k) {
      if (!same(more_[k - length], more_[k], true) || later_[slot_of(more_[k])]) return false;
    }
    return true;
  }

  bool add_loop() {
    const std::size_t last = loops_.empty() ? 0 : loops_.back().end;
    if (more_.size() - j_ < fewer_.size() - i_) return false;
    const std::size_t missing = more_.size() - j_ - (fewer_.size() - i_);
    const std::size_t longest = std::min(missing, i_ - last);
    for (std::size_t length = 1; length <= longest; ++length) {
      if (!repeats(length)) continue;
      for (std::size_t k = j_; k < j_ + length; ++k) later_[slot_of(more_[k])] = true;
      loops_.push_back({i_ - length, i_});
      j_ += length;
      return true;
    }
    return false;
  }

  const std::vector<Action>&fewer_, &more_;
  int turn_;
  std::vector<bool> later_;  // by kind and chunk: whether a loop has advanced them
  std::size_t i_ = 0, j_ = 0;
  std::vector<Loop> loops_;
};

bool find_loops(Schedule& schedule, const ActionLists& more) {
  std::vector<std::vector<Loop>> loops;
  for (std::size_t rank = 0; rank < more.size(); ++rank) {
    auto found =
        LoopFinder(schedule.actions[rank], more[rank], schedule.turn, schedule.chunks()).run();
    if (!found) return false;
    loops.push_back(std::move(*found));
  }
  schedule.loops = std::move(loops);
  return true;
}

}  // namespace

void write_lists(Schedule& schedule, int settled, const ListWriter& write) {
  const int p = schedule.ranks(), wanted = schedule.micro_batches;
  std::vector<int> turns = {1, 2, 3};
  if (entry_of(schedule.kind).in_groups) turns = {p};
  for (std::int64_t fewest = settled; 2 * (fewest + p) < wanted; fewest *= 2) {
    for (const int turn : turns) {
      const int first = static_cast<int>(fewest);
      const int written = first + (wanted - first) % turn;
      schedule.turn = turn;
      schedule.more_turns = (wanted - written) / turn;
      schedule.actions = write(written);
      if (find_loops(schedule, write(written + turn))) return;
    }
  }
  schedule.turn = schedule.more_turns = 0;
  schedule.actions = write(wanted);
}

}  // namespace trireme
