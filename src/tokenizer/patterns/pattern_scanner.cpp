// States of the scanner: threads of a backtracking engine in the order in which it tries them.
#include "tokenizer/patterns/pattern_scanner.h"

#include <algorithm>

namespace trireme {

PatternScanner::PatternScanner(ScanProgram program, SetsOf sets_of)
    : program_(std::move(program)),
      sets_of_(std::move(sets_of)),
      classes_(std::make_unique<std::atomic<std::uint8_t>[]>(0x110000)),
      steps_(std::make_unique<std::atomic<std::uint16_t>[]>(kMostStates * kMostClasses)),
      sets_of_class_{0, 0} {
  for (std::uint32_t i = 0; i < kMostStates * kMostClasses; ++i) steps_[i] = kUnknown;
  state_of({});
  state_of({program_.start});
  for (std::uint32_t c = 0; c < 128; ++c) {
    ascii_[c] = static_cast<std::uint8_t>(class_of(static_cast<char32_t>(c)));
  }
}

// Characters that are in the same sets are of one class. 0, for which no step is ever found, where
// there would be too many.
std::uint32_t PatternScanner::class_of(char32_t c) const {
  const std::uint64_t sets = sets_of_(c);
  const std::lock_guard lock(mutex_);
  const auto first = sets_of_class_.begin() + kEnd + 1;
  const auto found = std::find(first, sets_of_class_.end(), sets);
  const auto cls = static_cast<std::uint32_t>(found - sets_of_class_.begin());
  if (cls == kMostClasses) return 0;
  if (found == sets_of_class_.end()) sets_of_class_.push_back(sets);
  classes_[c].store(static_cast<std::uint8_t>(cls), std::memory_order_relaxed);
  return cls;
}

std::uint32_t PatternScanner::state_of(const Threads& threads) const {
  const auto state = static_cast<std::uint32_t>(threads_of_state_.size());
  const auto [found, is_new] = state_of_threads_.emplace(threads, state);
  if (is_new) threads_of_state_.push_back(threads);
  return found->second;
}

// Follows the threads of a state up to the characters that they pass next.
struct PatternScanner::Follow {
  const ScanProgram& program;
  std::uint64_t sets;  // of the next character
  bool at_end;
  std::vector<bool> seen = std::vector<bool>(program.nodes.size());
  Threads next;
  bool matched = false;

  void follow(std::uint16_t at) {
    using Kind = ScanProgram::Kind;
    if (matched || seen[at]) return;
    seen[at] = true;
    const ScanProgram::Node& node = program.nodes[at];
    const bool holds = !at_end && (sets >> node.arg & 1) != 0;
    switch (node.kind) {
      case Kind::character:
        if (holds && std::find(next.begin(), next.end(), node.next) == next.end()) {
          next.push_back(node.next);
        }
        return;
      case Kind::ahead:
        if (holds) follow(node.next);
        return;
      case Kind::not_ahead:
        if (!holds) follow(node.next);
        return;
      case Kind::fork:
        follow(node.next);
        follow(node.other);
        return;
      case Kind::match:
        matched = true;  // threads of lower priority are not tried any more
        return;
    }
  }
};

std::uint32_t PatternScanner::find_step(std::uint32_t state, std::uint32_t cls) const {
  if (cls == 0) return kUnknown;
  const std::lock_guard lock(mutex_);
  Follow follow{.program = program_, .sets = sets_of_class_[cls], .at_end = cls == kEnd};
  for (const std::uint16_t thread : threads_of_state_[state]) follow.follow(thread);
  if (threads_of_state_.size() == kMostStates && !state_of_threads_.contains(follow.next)) {
    return kUnknown;
  }
  const std::uint32_t step = 2 * state_of(follow.next) + follow.matched;
  steps_[state * kMostClasses + cls].store(static_cast<std::uint16_t>(step),
                                           std::memory_order_relaxed);
  return step;
}

}  // namespace trireme
