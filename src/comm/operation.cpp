// Message streams, and the operations that only move data.
#include "comm/operation.h"

#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "comm/collective.h"

namespace trireme {
namespace {

std::uint64_t identity_of(const std::vector<int>& ranks, const std::string& name) {
  return hash64(ranks.data(), ranks.size() * sizeof(int), hash64(name));
}

}  // namespace

GroupState::GroupState(std::vector<int> ranks, int own_rank, std::string group_name)
    : world_ranks(std::move(ranks)),
      rank(own_rank),
      name(std::move(group_name)),
      id(identity_of(world_ranks, name)),
      sends(world_ranks.size()),
      receives(world_ranks.size()) {}

void MessageStream::add(void* data, std::size_t bytes, int peer) {
  char* at = static_cast<char*>(data);
  while (bytes > Wire::max_bytes) {
    messages_.push_back({at, Wire::max_bytes, peer});
    at += Wire::max_bytes;
    bytes -= Wire::max_bytes;
  }
  messages_.push_back({at, bytes, peer});
}

std::int64_t MessageStream::bytes() const {
  std::int64_t sum = 0;
  for (const Message& message : messages_) sum += static_cast<std::int64_t>(message.bytes);
  return sum;
}

bool MessageStream::advance(Wire& wire, Wire::Context context, int tag, std::size_t released) {
  bool moved = false;
  for (;;) {
    while (posted_ < messages_.size() && posted_ < released &&
           requests_.size() < static_cast<std::size_t>(window_)) {
      const Message& m = messages_[posted_++];
      requests_.push_back(sends_ ? wire.send(m.data, m.bytes, m.peer, context, tag)
                                 : wire.receive(m.data, m.bytes, m.peer, context, tag));
      moved = true;
    }
    // Stops testing at the first incomplete request: one network call per round.
    if (requests_.empty() || !wire.test(requests_.front())) return moved;
    requests_.pop_front();
    ++completed_;
    moved = true;
  }
}

namespace {

class Pairwise final : public Collective {
 public:
  Pairwise(GroupState& group, Label label, const std::vector<Block>& sends,
           const std::vector<Block>& receives)
      : Collective(group, label) {
    const int n = group.size();
    // Each rank starts with its neighbor, so that not all send to the same rank.
    for (int step = 1; step < n; ++step) {
      const int to = (group.rank + step) % n;
      const int from = (group.rank - step + n) % n;
      sends_.add(sends[to].data, sends[to].bytes, to);
      receives_.add(receives[from].data, receives[from].bytes, from);
    }
  }

  Advance advance(Wire& wire) override {
    const bool received = receives_.advance(wire, group().context, tag());
    const bool sent = sends_.advance(wire, group().context, tag());
    return {received || sent, receives_.done() && sends_.done()};
  }

  std::int64_t sent_bytes() const override { return sends_.bytes(); }

 private:
  MessageStream sends_{true};
  MessageStream receives_{false};
};

// All-gather of small blocks by doubling (Bruck et al. 1997): in round k each rank sends what it
// has gathered to the rank 2^k before it and receives the next 2^k blocks from the rank 2^k ahead,
// so thousands of ranks need only a dozen messages each.
class SmallGather final : public Collective {
 public:
  SmallGather(GroupState& group, Label label, Block own, char* all)
      : Collective(group, label),
        all_(all),
        block_(own.bytes),
        gathered_(std::make_unique_for_overwrite<char[]>(block_ * group.size())) {
    const int n = group.size();
    std::memcpy(gathered_.get(), own.data, block_);
    for (int have = 1; have < n; have <<= 1) {
      const std::size_t bytes = block_ * std::min(have, n - have);
      sends_.add(gathered_.get(), bytes, (group.rank - have + n) % n);
      receives_.add(gathered_.get() + block_ * have, bytes, (group.rank + have) % n);
    }
  }

  Advance advance(Wire& wire) override {
    const bool received = receives_.advance(wire, group().context, tag());
    // Data that is forwarded in a round arrived in an earlier one.
    const bool sent = sends_.advance(wire, group().context, tag(), receives_.completed() + 1);
    const bool done = receives_.done() && sends_.done();
    if (done) put_in_order();
    return {received || sent, done};
  }

  std::int64_t sent_bytes() const override { return sends_.bytes(); }

 private:
  // Restores rank order: this rank's block was gathered first.
  void put_in_order() {
    const std::size_t rank = group().rank, n = group().size();
    std::memcpy(all_ + rank * block_, gathered_.get(), (n - rank) * block_);
    std::memcpy(all_, gathered_.get() + (n - rank) * block_, rank * block_);
  }

  char* all_;
  std::size_t block_;
  std::unique_ptr<char[]> gathered_;
  MessageStream sends_{true};
  MessageStream receives_{false};
};

// A binomial tree with pipelined pieces: ranks forward data while they still receive.
class Broadcast final : public Collective {
 public:
  Broadcast(GroupState& group, Label label, Block data, int root) : Collective(group, label) {
    const int n = group.size();
    const int place = (group.rank - root + n) % n;  // index in the tree, whose root is 0
    std::vector<int> children;
    int parent = -1;
    for (int bit = 1; bit < n; bit <<= 1) {
      if (place & bit) {
        parent = (place - bit + root) % n;
        break;
      }
      if (place + bit < n) children.push_back((place + bit + root) % n);
    }
    children_ = children.size();
    has_parent_ = parent >= 0;
    char* at = static_cast<char*>(data.data);
    for (std::size_t begin = 0; begin < data.bytes; begin += piece) {
      const std::size_t bytes = std::min(piece, data.bytes - begin);
      if (has_parent_) receives_.add(at + begin, bytes, parent);
      // Sends to the child with the largest subtree first.
      for (auto child = children.rbegin(); child != children.rend(); ++child) {
        sends_.add(at + begin, bytes, *child);
      }
    }
  }

  Advance advance(Wire& wire) override {
    const bool received = receives_.advance(wire, group().context, tag());
    const std::size_t released = has_parent_ ? receives_.completed() * children_ : SIZE_MAX;
    const bool sent = sends_.advance(wire, group().context, tag(), released);
    return {received || sent, receives_.done() && sends_.done()};
  }

  std::int64_t sent_bytes() const override { return sends_.bytes(); }

 private:
  static constexpr std::size_t piece = std::size_t{1} << 20;
  MessageStream sends_{true};
  MessageStream receives_{false};
  std::size_t children_ = 0;
  bool has_parent_ = false;
};

// Dissemination barrier: in round k each rank sends 2^k ahead and receives from 2^k before it.
class Barrier final : public Collective {
 public:
  Barrier(GroupState& group, Label label) : Collective(group, label) {
    const int n = group.size();
    for (int distance = 1; distance < n; distance <<= 1) {
      sends_.add(nullptr, 0, (group.rank + distance) % n);
      receives_.add(nullptr, 0, (group.rank - distance + n) % n);
    }
  }

  Advance advance(Wire& wire) override {
    // Round k may be sent once round k - 1 has been received.
    const bool received = receives_.advance(wire, group().context, tag());
    const bool sent = sends_.advance(wire, group().context, tag(), receives_.completed() + 1);
    return {received || sent, receives_.done() && sends_.done()};
  }

  std::int64_t sent_bytes() const override { return sends_.bytes(); }

 private:
  MessageStream sends_{true};
  MessageStream receives_{false};
};

class Exchange final : public Operation {
 public:
  Exchange(GroupState& group, Label label, std::span<const Transfer> transfers)
      : Operation(group, label) {
    for (const Transfer& t : transfers) {
      TRIREME_CHECK(t.peer >= 0 && t.peer < group.size() && t.peer != group.rank && t.count >= 0);
      const bool sends = t.direction == Transfer::Direction::send;
      std::uint64_t& begun = (sends ? group.sends : group.receives)[t.peer];
      const Expectation expectation{sends ? Expectation::Kind::send : Expectation::Kind::receive,
                                    begun++, t.peer};
      // Posts all messages at once and tests them separately: none may delay another.
      messages_.push_back({MessageStream(sends), expectation});
      messages_.back().stream.add(t.data, t.count * size_of(t.dtype), t.peer);
    }
  }

  Advance advance(Wire& wire) override {
    bool moved = false;
    bool all = true;
    for (Message& message : messages_) {
      moved |= message.stream.advance(wire, group().context, message_tag);
      all &= message.stream.done();
    }
    return {moved, all};
  }

  Expectation expectation() const override {
    for (const Message& message : messages_) {
      if (!message.stream.done()) return message.expectation;
    }
    return {Expectation::Kind::send, 0, -1};
  }
  std::int64_t sent_bytes() const override {
    std::int64_t sum = 0;
    for (const Message& message : messages_) {
      if (message.expectation.kind == Expectation::Kind::send) sum += message.stream.bytes();
    }
    return sum;
  }

 private:
  struct Message {
    MessageStream stream;
    Expectation expectation;
  };
  std::vector<Message> messages_;
};

}  // namespace

std::unique_ptr<Operation> make_pairwise(GroupState& group, Label label,
                                         const std::vector<Block>& sends,
                                         const std::vector<Block>& receives) {
  return std::make_unique<Pairwise>(group, label, sends, receives);
}

bool is_small_gather(std::size_t bytes, int ranks) {
  constexpr std::size_t small_bytes = 4096;
  constexpr int few_ranks = 16;  // their messages wait for the slowest rank only
  return bytes <= small_bytes && ranks > few_ranks;
}

std::unique_ptr<Operation> make_small_gather(GroupState& group, Label label, Block own, void* all) {
  return std::make_unique<SmallGather>(group, label, own, static_cast<char*>(all));
}

std::unique_ptr<Operation> make_broadcast(GroupState& group, Label label, Block data, int root) {
  TRIREME_CHECK(root >= 0 && root < group.size());
  return std::make_unique<Broadcast>(group, label, data, root);
}

std::unique_ptr<Operation> make_barrier(GroupState& group, Label label) {
  return std::make_unique<Barrier>(group, label);
}

std::unique_ptr<Operation> make_exchange(GroupState& group, Label label,
                                         std::span<const Transfer> transfers) {
  return std::make_unique<Exchange>(group, label, transfers);
}

}  // namespace trireme
