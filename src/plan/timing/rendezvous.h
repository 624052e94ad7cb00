// Messages and collectives between ranks of different pipeline positions, reached by one or both
// sides.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/timing/rank_costs.h"
#include "plan/timing/replay.h"

namespace trireme {

// A collective whose ranks span several pipeline positions.
struct Rendezvous {
  int arrived = 0;
  Clock begin;
};

// A point-to-point message: starts when both sides have reached it and the sender's earlier
// messages are complete.
struct Flight {
  std::optional<Clock> sent, received;  // start times of sender and receiver
  WorkCost cost;
  const char *name = "", *lane = "";
  std::optional<Clock> end;
};

class RendezvousTable {
 public:
  // `events` receives the intervals of messages; may be null.
  explicit RendezvousTable(std::vector<TimedEvent>* events) : events_(events) {}

  // Returns the collective of a group with this index.
  Rendezvous& collective(const std::string& group, int number) {
    return collectives_[{group, number}];
  }

  // Returns the next message between two positions, as each side reaches it.
  Flight& send(int from, int to, const Flight& begun);
  Flight& receive(int from, int to, const Clock& begin);
  // Computes the times of all messages of `from` that are determined.
  void settle(int from);
  // Time at which all sends of `from` are complete.
  const Clock& end_of_sends(int from);

 private:
  struct Channel {
    std::deque<Flight> flights;
    std::size_t sends = 0, receives = 0;

    Flight& at(std::size_t number);
  };
  struct Lane {
    std::deque<Flight*> waiting;
    Clock free;
  };

  std::map<std::pair<std::string, int>, Rendezvous> collectives_;
  std::map<std::pair<int, int>, Channel> channels_;  // by sender, receiver
  std::map<int, Lane> lanes_;                        // of sends, by sender
  std::vector<TimedEvent>* events_;
};

}  // namespace trireme
