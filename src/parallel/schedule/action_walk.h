// Iterates over all actions of a rank's list, expanding the loops by which long schedules store
// their repeating middle only once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "parallel/schedule/schedule.h"

namespace trireme {

inline constexpr std::size_t action_kinds = static_cast<std::size_t>(ActionKind::step) + 1;

// Index of an action in a table indexed by chunk and kind.
inline std::size_t slot_of(const Action& action) {
  return static_cast<std::size_t>(action.chunk) * action_kinds +
         static_cast<std::size_t>(action.kind);
}

class ActionWalk {
 public:
  // `schedule` must outlive the walk.
  ActionWalk(const Schedule& schedule, int rank);

  // Returns the next action, valid until the following call; null at the end.
  const Action* next() {
    if (position_ == stop_ && !turn_back()) return nullptr;
    current_ = list_[position_++];
    if (loops_) current_.micro_batch += turn_ * schedule_.turn + offsets_[slot_of(current_)];
    return &current_;
  }

 private:
  // Handles the end of a loop or of the list; returns false if no actions remain.
  bool turn_back();
  void leave_loop();

  const Schedule& schedule_;
  const std::vector<Action>& list_;
  const std::vector<Loop>* loops_ = nullptr;  // null: the list has no loops
  std::size_t position_ = 0, loop_ = 0;
  std::size_t stop_ = 0;  // end of the next loop, or of the list
  int turn_ = 0;
  // Micro-batches skipped by earlier loops, by kind and chunk.
  std::vector<std::int32_t> offsets_;
  Action current_{};
};

// Returns all actions of a rank as a vector.
std::vector<Action> all_actions(const Schedule& schedule, int rank);

// Fills in the lists of a schedule whose kind, placement and micro-batches are set. `write`
// generates full lists for any number of micro-batches. If a step is long and periodic, lists are
// generated for fewer micro-batches (at least `settled`, an estimate of how many it takes to reach
// the periodic state; a low estimate costs time), and Schedule::loops covers the rest.
using ActionLists = std::vector<std::vector<Action>>;
using ListWriter = std::function<ActionLists(int micro_batches)>;
void write_lists(Schedule& schedule, int settled, const ListWriter& write);

}  // namespace trireme
