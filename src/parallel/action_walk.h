// The whole list of a rank, one action after another: a long schedule writes down once what repeats
// itself.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "parallel/schedule.h"

namespace trireme {

inline constexpr std::size_t action_kinds = static_cast<std::size_t>(ActionKind::step) + 1;

// Index of an action in a table by chunk and kind.
inline std::size_t slot_of(const Action& action) {
  return static_cast<std::size_t>(action.chunk) * action_kinds +
         static_cast<std::size_t>(action.kind);
}

class ActionWalk {
 public:
  // `schedule` must outlive the walk.
  ActionWalk(const Schedule& schedule, int rank);

  // The next action, which the following call overwrites; null at the end.
  const Action* next() {
    if (position_ == stop_ && !turn_back()) return nullptr;
    current_ = list_[position_++];
    if (loops_) current_.micro_batch += turn_ * schedule_.turn + offsets_[slot_of(current_)];
    return &current_;
  }

 private:
  // At the end of a loop, or of the list: false where nothing follows.
  bool turn_back();
  void leave_loop();

  const Schedule& schedule_;
  const std::vector<Action>& list_;
  const std::vector<Loop>* loops_ = nullptr;  // null: nothing is left out
  std::size_t position_ = 0, loop_ = 0;
  std::size_t stop_ = 0;  // where the loop ends that comes next, or the list
  int turn_ = 0;
  // Micro-batches that earlier loops left out, by kind and chunk.
  std::vector<std::int32_t> offsets_;
  Action current_{};
};

// The same as a vector.
std::vector<Action> all_actions(const Schedule& schedule, int rank);

// Writes the lists of a schedule whose kind, placement and micro-batches are set. `write` makes the
// full lists for any number of micro-batches. Where a step is long and its middle repeats itself,
// they are made for fewer, from `settled` on (how many it takes until steps of this kind repeat
// themselves, at a guess: it costs time if it is too low), and Schedule::loops say the rest.
using ActionLists = std::vector<std::vector<Action>>;
using ListWriter = std::function<ActionLists(int micro_batches)>;
void write_lists(Schedule& schedule, int settled, const ListWriter& write);

}  // namespace trireme
