// Two rounds of messages between all pairs of ranks: the hosts, then the ranks heard from.
#include "comm/handshake.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>
#include <thread>

#include "comm/wire.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t host_bytes = 256;
constexpr int host_tag = 0, row_tag = 1;

}  // namespace

// Sends one message to all others and receives one from each.
class Handshake::Round {
 public:
  Round(Wire& wire, std::string own, int tag) : wire_(wire), own_(std::move(own)) {
    const int ranks = wire.place().size;
    from_.resize(static_cast<std::size_t>(ranks));
    to_.resize(from_.size());
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == wire.place().rank) continue;
      Message& from = from_[static_cast<std::size_t>(rank)];
      from.text.resize(own_.size());
      from.request = wire.receive(from.text.data(), own_.size(), rank, Wire::world_context, tag);
      from.under_way = true;
    }
    for (int distance = 1; distance < ranks; ++distance) {  // spreads the sends over the ranks
      const int rank = (wire.place().rank + distance) % ranks;
      Message& to = to_[static_cast<std::size_t>(rank)];
      to.request = wire.send(own_.data(), own_.size(), rank, Wire::world_context, tag);
      to.under_way = true;
    }
  }

  void poll() {
    poll(to_);
    poll(from_);
  }
  bool heard(int rank) const { return !from_[static_cast<std::size_t>(rank)].under_way; }
  bool reached(int rank) const { return !to_[static_cast<std::size_t>(rank)].under_way; }
  bool heard_all() const { return std::ranges::none_of(from_, &Message::under_way); }
  const std::string& from(int rank) const {
    return rank == wire_.place().rank ? own_ : from_[static_cast<std::size_t>(rank)].text;
  }

 private:
  struct Message {
    Wire::Request request;
    bool under_way = false, failed = false;
    std::string text;
  };

  void poll(std::vector<Message>& messages) {
    for (Message& message : messages)
      if (message.under_way && !message.failed) poll(message);
  }
  // A message that fails counts as not arrived.
  void poll(Message& message) {
    try {
      message.under_way = !wire_.test(message.request);
    } catch (const JobEnded&) {
      throw;
    } catch (const Error&) {
      message.failed = true;
    }
  }

  Wire& wire_;
  const std::string own_;
  std::vector<Message> from_, to_;
};

int Reach::heard() const {
  return static_cast<int>(
      std::ranges::count_if(hosts, [](const std::string& host) { return !host.empty(); }));
}

bool Reach::hears_most() const {
  const int twice = 2 * heard(), ranks = static_cast<int>(hosts.size());
  return twice > ranks || (twice == ranks && !hosts[0].empty());
}

Handshake::Handshake(Wire& wire, double limit_s) {
  const int own = wire.place().rank, ranks = wire.place().size;
  reach_.rank = own;
  if (ranks > largest_handshake) return;
  const Clock::time_point begin = Clock::now();
  const auto until = [&](double seconds, const auto& enough) {
    const auto end = begin + std::chrono::duration<double>(seconds);
    for (poll(); !enough() && Clock::now() < end; poll())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };

  std::string host = wire.place().host;
  host.resize(host_bytes);
  hosts_round_ = std::make_unique<Round>(wire, host, host_tag);
  until(limit_s / 2, [&] { return hosts_round_->heard_all(); });
  std::string row;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool heard = hosts_round_->heard(rank);
    row += static_cast<char>(heard);
    reach_.hosts.emplace_back(heard ? hosts_round_->from(rank).c_str() : "");
  }

  reach_round_ = std::make_unique<Round>(wire, row, row_tag);
  const auto heard = [&](int rank) { return row[static_cast<std::size_t>(rank)] != 0; };
  const auto reached = [&](int rank) {
    return hosts_round_->reached(rank) && reach_round_->reached(rank) && reach_round_->heard(rank);
  };
  until(limit_s, [&] {
    for (int rank = 0; rank < ranks; ++rank)
      if (heard(rank) && !reached(rank)) return false;
    return true;
  });

  std::set<std::pair<int, int>> dead;
  const auto note = [&](int a, int b) { dead.emplace(std::min(a, b), std::max(a, b)); };
  for (int rank = 0; rank < ranks; ++rank) {
    if (!heard(rank) || !reached(rank)) note(own, rank);
    if (!reach_round_->heard(rank)) continue;
    const std::string& theirs = reach_round_->from(rank);
    for (int other = 0; other < ranks; ++other)
      if (theirs[static_cast<std::size_t>(other)] == 0) note(rank, other);
    const auto count = [](const std::string& of) { return std::ranges::count(of, 1); };
    if (count(theirs) > count(row) || (count(theirs) == count(row) && rank < own))
      reach_.reports = false;
  }
  reach_.dead.assign(dead.begin(), dead.end());
}

Handshake::~Handshake() = default;

void Handshake::poll() {
  for (const auto& round : {hosts_round_.get(), reach_round_.get()})
    if (round) round->poll();
}

void Handshake::serve(double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (; Clock::now() < end; std::this_thread::sleep_for(std::chrono::milliseconds(1))) poll();
}

}  // namespace trireme
