// Messages and collectives between the ranks of different pipeline positions that one or both sides
// have reached.
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

// A collective of ranks on several pipeline positions.
struct Rendezvous {
  int arrived = 0;
  Clock begin;
};

// A message from one position to another: it begins when both have come to it, and when the
// sender's earlier ones are across.
struct Flight {
  std::optional<Clock> sent, received;  // when the sender and the receiver begin with it
  WorkCost cost;
  const char *name = "", *lane = "";
  std::optional<Clock> end;
};

class RendezvousTable {
 public:
  // `events` gets the stretches of messages; may be null.
  explicit RendezvousTable(std::vector<TimedEvent>* events) : events_(events) {}

  // The collective of a group with this number.
  Rendezvous& collective(const std::string& group, int number) {
    return collectives_[{group, number}];
  }

  // The next message between two positions, as each side comes to it.
  Flight& send(int from, int to, const Flight& begun);
  Flight& receive(int from, int to, const Clock& begin);
  // Settles the messages of `from` that are known.
  void settle(int from);
  // When all that `from` has sent is across.
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
