// Messages are transferred in order, each when both sides have reached it.
#include "plan/timing/rendezvous.h"

#include "base/error.h"

namespace trireme {

Flight& RendezvousTable::Channel::at(std::size_t number) {
  if (number == flights.size()) flights.emplace_back();
  return flights[number];
}

Flight& RendezvousTable::send(int from, int to, const Flight& begun) {
  Channel& channel = channels_[{from, to}];
  Flight& flight = channel.at(channel.sends++);
  const std::optional<Clock> received = flight.received;
  flight = begun;
  flight.received = received;
  lanes_[from].waiting.push_back(&flight);
  return flight;
}

Flight& RendezvousTable::receive(int from, int to, const Clock& begin) {
  Channel& channel = channels_[{from, to}];
  Flight& flight = channel.at(channel.receives++);
  flight.received = begin;
  return flight;
}

void RendezvousTable::settle(int from) {
  Lane& lane = lanes_[from];
  while (!lane.waiting.empty() && lane.waiting.front()->received) {
    Flight& flight = *lane.waiting.front();
    lane.waiting.pop_front();
    lane.free.wait_for(*flight.sent);
    lane.free.wait_for(*flight.received);
    const double begin = lane.free.at;
    lane.free.spend(flight.cost.kind, flight.cost.seconds);
    flight.end = lane.free;
    if (events_ && lane.free.at > begin)
      events_->push_back({from, flight.lane, flight.name, begin, lane.free.at});
  }
}

const Clock& RendezvousTable::end_of_sends(int from) {
  settle(from);
  TRIREME_CHECK(lanes_[from].waiting.empty());
  return lanes_[from].free;
}

}  // namespace trireme
