// Collectives and point-to-point messages among a group of ranks: over MPI for data in the host's
// memory (comm/group.h), over NCCL and RCCL for data on GPUs (comm/device_communicator.h).
//
// Rules, the same for every implementation:
// - An operation starts when it is called and is complete when its Work is done. Until then it
//   owns its buffers: inputs may be read, outputs must not be touched.
// - All members call the collectives of a group in the same order with the same counts.
//   Collectives of one group run one after another; those of different groups run concurrently.
//   (A group that must not queue behind another gets a communicator of its own, same ranks.)
// - Messages between two ranks match in posting order, separately for each direction; there are
//   no tags. Sends and receives never wait for collectives.
// - Reductions have one fixed order, independent of counts, machine and timing: element e of the
//   result is ((x0 + x1) + x2) + ... by rank in the group. f32, f64 and integers are added in their
//   own type; bf16 and f16 in f32, rounded once. All members get the same bits for any split into
//   pieces. (NCCL and RCCL order f32 themselves unless numerics are exact.)
//   Reduction::tree has a different order, which is just as fixed.
// - `max` propagates NaN.
// - Failures do not return: an operation that exceeds the time limit, and any transport error,
//   end the job with one message (see Transport::abort).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace trireme {

// tree: sums f32 or f64 as a binary tree over the ranks, ((x0 + x1) + (x2 + x3)) + ...; only
// for data in host memory.
enum class Reduction : std::uint8_t { sum, max, tree };

// Purpose of an operation as shown in messages and traces: "reduce gradients 3". `what` must
// outlive the operation (a literal, or text owned by a plan).
struct Label {
  const char* what;
  std::int64_t index = -1;  // printed after `what` unless negative

  Label(const char* text) : what(text) {}  // NOLINT: a literal is a label
  Label(const char* text, std::int64_t number) : what(text), index(number) {}
  std::string text() const;
};

// An operation in progress. Movable. Its destructor does not wait: without wait() the operation
// continues, and the device memory it uses is kept until it completes.
class Work {
 public:
  // State of an incomplete operation, kept by the implementation.
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual bool done() = 0;
    virtual void wait() = 0;
    // Called if the holder is destroyed without waiting.
    virtual void detach() = 0;
  };

  Work() = default;  // complete
  explicit Work(std::unique_ptr<Pending> pending) : pending_(std::move(pending)) {}
  ~Work() { settle(); }
  Work(Work&&) noexcept = default;
  Work& operator=(Work&& other) noexcept;  // releases the held operation first

  // Returns whether the operation is complete. Does not block.
  bool done();
  // Blocks until the operation is complete; further calls cost nothing.
  void wait();

 private:
  void settle() noexcept;

  std::unique_ptr<Pending> pending_;
};

// One message of a grouped exchange. `peer` is a rank in the group.
struct Transfer {
  enum class Direction : std::uint8_t { send, receive };
  Direction direction;
  int peer;
  void* data;  // only read if direction is send
  std::int64_t count;
  DType dtype;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::string& name() const { return name_; }
  // World ranks of the members, in group order.
  const std::vector<int>& world_ranks() const { return world_ranks_; }
  int size() const { return static_cast<int>(world_ranks_.size()); }
  int rank() const { return rank_; }
  // The same group for data in host memory.
  virtual Communicator& on_host() { return *this; }

  // Reduces data[count] over all members, in place.
  virtual Work all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction,
                          Label label) = 0;
  // Reduces src[size * count] over all members; dst[count] gets this rank's part. `dst` may be that
  // part of `src`; otherwise they must not overlap, and `src` is unchanged.
  virtual Work reduce_scatter(const void* src, void* dst, std::int64_t count, DType dtype,
                              Reduction reduction, Label label) = 0;
  // Gathers src[count] of all members into dst[size * count], in group order. `src` may be this
  // rank's part of `dst`; otherwise they must not overlap.
  virtual Work all_gather(const void* src, void* dst, std::int64_t count, DType dtype,
                          Label label) = 0;
  // Sends data[count] of `root` to all members.
  virtual Work broadcast(void* data, std::int64_t count, DType dtype, int root, Label label) = 0;
  // Sends part k of src[size * count] to member k, and receives part k of dst[size * count] from
  // it. The buffers must not overlap.
  virtual Work all_to_all(const void* src, void* dst, std::int64_t count, DType dtype,
                          Label label) = 0;
  // Completes when all members have called it.
  virtual Work barrier(Label label) = 0;
  // Starts all transfers together; the Work completes with the last one. Order within the call
  // matters only between the same two ranks. A rank must not be its own peer.
  virtual Work exchange(std::span<const Transfer> transfers, Label label) = 0;

  Work send(const void* data, std::int64_t count, DType dtype, int peer, Label label);
  Work receive(void* data, std::int64_t count, DType dtype, int peer, Label label);

 protected:
  Communicator(std::vector<int> world_ranks, int rank, std::string name);

 private:
  std::vector<int> world_ranks_;
  int rank_;
  std::string name_;
};

// Bytes that each of `ranks` sends in a collective, for plans. `bytes` is the buffer size of an
// all_reduce, and the full size of an all_gather or reduce_scatter.
double all_reduce_traffic(double bytes, int ranks);
double scatter_traffic(double bytes, int ranks);

// A group of one: sends nothing, and every operation completes immediately. Without `copies`
// results are not written, for addresses without memory behind them.
std::unique_ptr<Communicator> make_self_communicator(int world_rank, std::string name,
                                                     bool copies = true);

}  // namespace trireme
