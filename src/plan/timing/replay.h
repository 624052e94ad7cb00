// Replays the recorded steps of all kinds of ranks on a model of a machine: activity of each queue,
// waits between ranks, and the critical path of the step.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/timing/costs.h"

namespace trireme {

// A point in time with the breakdown of the critical path that led to it: parts add up to it.
struct Clock {
  double at = 0;
  TimeByKind path{};

  void spend(TimeKind kind, double seconds) {
    at += seconds;
    path[static_cast<std::size_t>(kind)] += seconds;
  }
  // Takes the later of the two.
  void wait_for(const Clock& other) {
    if (other.at > at) *this = other;
  }
};

struct RankTime {
  double end = 0;      // when its last work is complete
  TimeByKind busy{};   // of the compute queue, by kind
  TimeByKind waits{};  // of the compute queue for messages, by kind of message
};

// Busy interval of a queue, for diagrams.
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

// `programs`: one rank per pipeline position; the others of a position behave identically.
// `events`: whether to record the intervals.
Replay replay(const std::vector<const Record*>& programs, const CostModel& costs,
              bool events = false);

// Seconds of one piece of a step.
struct PieceTime {
  double compute = 0;  // of the compute queue, and of the messages that it waits for
  double host = 0;     // to enqueue it
};

// Times of each piece in isolation, starting with idle queues: anywhere in a step, the compute
// queue takes at least this long for it.
std::map<WorkKey, PieceTime> times_alone(const Record& record, const CostModel& costs);

// Formats the events as a Chrome trace (about:tracing, Perfetto): one process per position.
std::string chrome_trace(const Replay& replay);

}  // namespace trireme
