// Replays the recorded steps of all kinds of ranks against a machine: what each queue does when,
// who waits for whom, and which chain of work decides how long the step takes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/timing/costs.h"

namespace trireme {

// A time, with what the chain of work that led to it went to: the parts add up to it.
struct Clock {
  double at = 0;
  TimeByKind path{};

  void spend(TimeKind kind, double seconds) {
    at += seconds;
    path[static_cast<std::size_t>(kind)] += seconds;
  }
  // The later of the two decides.
  void wait_for(const Clock& other) {
    if (other.at > at) *this = other;
  }
};

struct RankTime {
  double end = 0;      // when its last work is done
  TimeByKind busy{};   // of the compute queue, by kind
  TimeByKind waits{};  // of the compute queue for messages, by what they are for
};

// A stretch of a queue, for pictures.
struct TimedEvent {
  int rank;          // pipeline position
  std::string lane;  // of the rank
  std::string name;
  double begin, end;
};

struct Replay {
  Clock end;                    // of the whole step
  std::vector<RankTime> ranks;  // by pipeline position
  std::vector<TimedEvent> events;
};

// `programs`: of one rank of each pipeline position; the others of a position do the same at the
// same time. With `events` the stretches are kept.
Replay replay(const std::vector<const Record*>& programs, const CostModel& costs,
              bool events = false);

// Seconds of a piece of a step.
struct PieceTime {
  double compute = 0;  // of the compute queue, and of the messages that it waits for
  double host = 0;     // to enqueue it
};

// Each piece of a record on its own, with idle queues at its begin: wherever it happens in a step,
// the compute queue ends it no earlier after it began.
std::map<WorkKey, PieceTime> times_alone(const Record& record, const CostModel& costs);

// The events as a Chrome trace (about:tracing, Perfetto): a process per pipeline position.
std::string chrome_trace(const Replay& replay);

}  // namespace trireme
