// Collectives as state machines over a wire: each makes progress when polled and never blocks.
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

// Identifies what an operation waits for in a form the other rank can check. Collective: its number
// in the group. Message: its number among those from one rank to the other.
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

  // Makes the progress possible now. Not called again after it returned complete.
  virtual Advance advance(Wire& wire) = 0;
  virtual Expectation expectation() const = 0;
  // Bytes sent by this rank for the operation.
  virtual std::int64_t sent_bytes() const = 0;

  bool done() const { return done_.load(std::memory_order_acquire); }
  // Called last, by the engine; the owner may then destroy the operation.
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

// One rank's view of a group: the operations started so far, and the queued collectives.
struct GroupState {
  GroupState(std::vector<int> ranks, int own_rank, std::string group_name);

  std::vector<int> world_ranks;
  int rank;
  std::string name;
  std::uint64_t id;  // hash of the ranks and the name, equal on all members
  Wire::Context context = Wire::world_context;
  std::uint64_t collectives = 0;               // number started
  std::vector<std::uint64_t> sends, receives;  // number started, by peer
  std::deque<Operation*> queue;                // collectives; only the first is in progress

  int size() const { return static_cast<int>(world_ranks.size()); }
};

// Messages in one direction that are posted in order, at most `window` at a
// time, and complete in order.
class MessageStream {
 public:
  struct Message {
    void* data;
    std::size_t bytes;
    int peer;
  };

  explicit MessageStream(bool sends, int window = 16) : sends_(sends), window_(window) {}

  // Adds a message, split if it is larger than the wire's limit.
  void add(void* data, std::size_t bytes, int peer);
  // Posts messages below number `released` (default: all); tests. Returns whether any progressed.
  bool advance(Wire& wire, Wire::Context context, int tag, std::size_t released = SIZE_MAX);
  std::size_t completed() const { return completed_; }
  std::size_t size() const { return messages_.size(); }
  bool done() const { return completed_ == messages_.size(); }
  // Total size of all messages.
  std::int64_t bytes() const;
  const Message& next_to_complete() const { return messages_[completed_]; }

 private:
  bool sends_;
  int window_;
  std::vector<Message> messages_;
  std::deque<Wire::Request> requests_;  // of messages [completed_, posted_)
  std::size_t posted_ = 0;
  std::size_t completed_ = 0;
};

// The collectives. Sizes are in bytes unless noted; peers are ranks in the group.
struct Block {
  void* data;
  std::size_t bytes;
};

// Completes when every listed message has. Used by all_gather and all_to_all.
std::unique_ptr<Operation> make_pairwise(GroupState& group, Label label,
                                         const std::vector<Block>& sends,
                                         const std::vector<Block>& receives);
// Gathers the blocks to all[ranks * bytes] in few messages, for small blocks of many ranks.
bool is_small_gather(std::size_t bytes, int ranks);
std::unique_ptr<Operation> make_small_gather(GroupState& group, Label label, Block own, void* all);
std::unique_ptr<Operation> make_broadcast(GroupState& group, Label label, Block data, int root);
std::unique_ptr<Operation> make_barrier(GroupState& group, Label label);
// Reduces data[count] in place.
std::unique_ptr<Operation> make_all_reduce(GroupState& group, Label label, void* data,
                                           std::int64_t count, DType dtype, Reduction reduction);
std::unique_ptr<Operation> make_reduce_scatter(GroupState& group, Label label, const void* src,
                                               void* dst, std::int64_t count, DType dtype,
                                               Reduction reduction);
std::unique_ptr<Operation> make_exchange(GroupState& group, Label label,
                                         std::span<const Transfer> transfers);

}  // namespace trireme
