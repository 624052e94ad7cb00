// Tests that ranks which exchange handshakes find dead links, and agree on which rank reports them.
#include "comm/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "comm/wire.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

using Links = std::set<std::pair<int, int>>;  // from, to

// Ranks as threads. Sends complete immediately, as small ones do with MPI; messages on a dead link
// never arrive.
class Network {
 public:
  explicit Network(Links cut) : cut_(std::move(cut)) {}

  void send(int from, int to, int tag, std::string bytes) {
    const std::lock_guard lock(mutex_);
    if (!cut_.contains({from, to})) messages_[{from, to, tag}].push_back(std::move(bytes));
  }
  bool receive(int from, int to, int tag, void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto& queue = messages_[{from, to, tag}];
    if (queue.empty()) return false;
    EXPECT_EQ(queue.front().size(), bytes);
    std::copy_n(queue.front().data(), bytes, static_cast<char*>(data));
    queue.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  const Links cut_;
  std::map<std::tuple<int, int, int>, std::deque<std::string>> messages_;
};

class NetworkWire final : public Wire {
 public:
  NetworkWire(Network& network, int rank, int ranks) : network_(network) {
    place_.rank = rank;
    place_.size = ranks;
    place_.host = "node" + std::to_string(rank);
  }
  const Place& place() const override { return place_; }
  Context open_context(const std::vector<int>&, int) override { return 0; }
  Request send(const void* data, std::size_t bytes, int peer, Context, int tag) override {
    network_.send(place_.rank, peer, tag, {static_cast<const char*>(data), bytes});
    return {0};
  }
  Request receive(void* data, std::size_t bytes, int peer, Context, int tag) override {
    awaited_.push_back({data, bytes, peer, tag});
    return {awaited_.size()};
  }
  bool test(Request& request) override {
    if (request.bits == 0) return true;
    const Awaited& a = awaited_[request.bits - 1];
    return network_.receive(a.peer, place_.rank, a.tag, a.data, a.bytes);
  }
  void send_control(const ControlMessage&, int) override {}
  bool receive_control(ControlMessage&, int&) override { return false; }
  void abort(int) override { throw JobEnded(ExitCode::failed); }

 private:
  struct Awaited {
    void* data;
    std::size_t bytes;
    int peer, tag;
  };
  Network& network_;
  Place place_;
  std::vector<Awaited> awaited_;
};

Links both_ways(int a, int b) {
  return {{a, b}, {b, a}};
}

Links around(int rank, int ranks) {
  Links links;
  for (int other = 0; other < ranks; ++other)
    if (other != rank) links.merge(both_ways(rank, other));
  return links;
}

std::vector<Reach> run_handshakes(int ranks, const Links& cut, double limit_s) {
  Network network(cut);
  std::vector<Reach> found(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      NetworkWire wire(network, rank, ranks);
      found[static_cast<std::size_t>(rank)] = Handshake(wire, limit_s).reach();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return found;
}

// The short limit is long enough for a loaded machine; no test of an intact network waits for it.
constexpr double short_s = 1, long_s = 60;

TEST(Handshake, FindNothingWhereAllReachEachOther) {
  for (const int ranks : {1, 2, 5}) {
    for (const Reach& reach : run_handshakes(ranks, {}, long_s)) {
      EXPECT_THAT(reach.dead, IsEmpty());
      EXPECT_EQ(reach.heard(), ranks);
      EXPECT_EQ(reach.hosts.back(), "node" + std::to_string(ranks - 1));
      EXPECT_EQ(reach.reports, reach.rank == 0);
    }
  }
}

// All ranks learn of the dead link; the first rank that hears both of its ends reports it.
TEST(Handshake, FindALinkThatIsDead) {
  for (const Reach& reach : run_handshakes(4, both_ways(0, 2), short_s)) {
    EXPECT_THAT(reach.dead, ElementsAre(Pair(0, 2))) << reach.rank;
    EXPECT_EQ(reach.reports, reach.rank == 1) << reach.rank;
    EXPECT_TRUE(reach.hears_most());
  }
}

TEST(Handshake, FindALinkThatIsDeadOneWay) {
  for (const Reach& reach : run_handshakes(3, {{2, 1}}, short_s))
    EXPECT_THAT(reach.dead, ElementsAre(Pair(1, 2))) << reach.rank;
}

TEST(Handshake, ARankThatIsCutOffKnowsThatItIs) {
  const std::vector<Reach> found = run_handshakes(3, around(0, 3), short_s);
  EXPECT_FALSE(found[0].hears_most());
  EXPECT_TRUE(found[1].reports);
  EXPECT_FALSE(found[2].reports);
  EXPECT_THAT(found[1].dead, ElementsAre(Pair(0, 1), Pair(0, 2)));
  EXPECT_THAT(found[1].hosts, ElementsAre("", "node1", "node2"));
}

TEST(Handshake, OfTwoTheFirstIsBelieved) {
  const std::vector<Reach> found = run_handshakes(2, both_ways(0, 1), short_s);
  EXPECT_TRUE(found[0].hears_most());
  EXPECT_FALSE(found[1].hears_most());
  EXPECT_THAT(found[0].dead, ElementsAre(Pair(0, 1)));
}

}  // namespace
}  // namespace trireme
