// Collectives as state machines over a wire: each moves on when asked and never waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/wire.h"

namespace trireme {

// Identifies what an operation waits for in terms that the other rank can check. A collective: its
// number in the group. A message: its number among those between the two ranks in that direction.
struct Expectation {
  enum class Kind : std::uint8_t { collective, send, receive };
  Kind kind = Kind::collective;
  std::uint64_t index = 0;
  int peer = -1;  // rank in the group, for messages
};

struct GroupState;

struct Advance {
  bool moved;
  bool complete;
};

class Operation {
 public:
  Operation(GroupState& group, Label label) : group_(group), label_(label) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Does what can be done now. Not called again once it has said complete.
  virtual Advance advance(Wire& wire) = 0;
  virtual Expectation expectation() const = 0;
  // Bytes that this rank sends for it.
  virtual std::int64_t sent_bytes() const = 0;

  bool done() const { return done_.load(std::memory_order_acquire); }
  // Called last, by the engine: from then on the owner may destroy the operation.
  void finish() { done_.store(true, std::memory_order_release); }
  GroupState& group() const { return group_; }
  const Label& label() const { return label_; }
  std::chrono::steady_clock::time_point begun() const { return begun_; }

 private:
  GroupState& group_;
  Label label_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::atomic<bool> done_{false};
};

// One rank's view of a group: what it has begun so far, and the collectives that queue.
struct GroupState {
  GroupState(std::vector<int> ranks, int own_rank, std::string group_name);

  std::vector<int> world_ranks;
  int rank;
  std::string name;
  std::uint64_t id;  // of the ranks and the name: equal on all members
  Wire::Context context = Wire::world_context;
  std::uint64_t collectives = 0;               // begun
  std::vector<std::uint64_t> sends, receives;  // begun, by peer
  std::deque<Operation*> queue;                // collectives; only the first is under way

  int size() const { return static_cast<int>(world_ranks.size()); }
};

// Messages in one direction that are posted in order, at most `window` at a time, and complete in
// order.
class MessageStream {
 public:
  struct Message {
    void* data;
    std::size_t bytes;
    int peer;
  };

  explicit MessageStream(bool sends, int window = 16) : sends_(sends), window_(window) {}

  // Adds a message; one that is larger than the wire takes is cut.
  void add(void* data, std::size_t bytes, int peer);
  // Posts up to message number `released` (all by default) and tests. Returns whether any moved.
  bool advance(Wire& wire, Wire::Context context, int tag, std::size_t released = SIZE_MAX);
  std::size_t completed() const { return completed_; }
  std::size_t size() const { return messages_.size(); }
  bool done() const { return completed_ == messages_.size(); }
  // Total of all messages.
  std::int64_t bytes() const;
  const Message& next_to_complete() const { return messages_[completed_]; }

 private:
  bool sends_;
  int window_;
  std::vector<Message> messages_;
  std::deque<Wire::Request> requests_;  // of the messages in [completed_, posted_)
  std::size_t posted_ = 0;
  std::size_t completed_ = 0;
};

// The collectives. All sizes in bytes unless said otherwise; peers are ranks in the group.
struct Block {
  void* data;
  std::size_t bytes;
};

// Complete when every listed message is. Serves all_gather and all_to_all.
std::unique_ptr<Operation> make_pairwise(GroupState& group, Label label,
                                         const std::vector<Block>& sends,
                                         const std::vector<Block>& receives);
// all[ranks * bytes] gets the block of every rank. In few messages, for small blocks of many ranks.
bool is_small_gather(std::size_t bytes, int ranks);
std::unique_ptr<Operation> make_small_gather(GroupState& group, Label label, Block own, void* all);
std::unique_ptr<Operation> make_broadcast(GroupState& group, Label label, Block data, int root);
std::unique_ptr<Operation> make_barrier(GroupState& group, Label label);
// In place over data[count].
std::unique_ptr<Operation> make_all_reduce(GroupState& group, Label label, void* data,
                                           std::int64_t count, DType dtype, Reduction reduction);
std::unique_ptr<Operation> make_reduce_scatter(GroupState& group, Label label, const void* src,
                                               void* dst, std::int64_t count, DType dtype,
                                               Reduction reduction);
std::unique_ptr<Operation> make_exchange(GroupState& group, Label label,
                                         std::span<const Transfer> transfers);

}  // namespace trireme
