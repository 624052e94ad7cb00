// Collectives and point-to-point messages among a group of ranks: over MPI for data in the host's
// memory (comm/group.h), over NCCL and RCCL for data on GPUs (comm/device_communicator.h).
//
// Rules, the same for every implementation:
// - An operation starts when it is called and is complete when its Work is done. Until then its
//   buffers belong to it: inputs may be read, outputs must not be touched.
// - All members call the collectives of a group in the same order with the same counts. Collectives
//   of one group run one after another; those of different groups run side by side. (A group that
//   must not queue behind another gets a communicator of its own, with the same ranks.)
// - Messages between two ranks match in the order in which they are posted, each direction apart;
//   there are no tags. Sends and receives never wait for collectives.
// - Reductions have one fixed order, whatever the counts, the machine or the timing: element e of
//   the result is ((x0 + x1) + x2) + ... by rank in the group. f32, f64 and integers are added in
//   their own type; bf16 and f16 are added in f32 and rounded once. So every member gets the same
//   bits, and any cut into pieces agrees. (GPUs' libraries order f32 unless numerics are exact.)
//   Reduction::tree has another order, which is as fixed.
// - `max` hands NaN on.
// - Failure does not return: an operation that does not complete within the time limit, and any
//   error of the transport, ends the job with one message (see Transport::abort).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace trireme {

// tree: a sum of f32 or f64 as a binary tree over the ranks, ((x0 + x1) + (x2 + x3)) + ..., in the
// host's memory only.
enum class Reduction : std::uint8_t { sum, max, tree };

// Purpose of an operation, as messages and traces name it: "reduce gradients 3". `what` must
// outlive the operation (a literal, or text that a plan owns).
struct Label {
  const char* what;
  std::int64_t index = -1;  // printed after `what` unless negative

  Label(const char* text) : what(text) {}  // NOLINT: a literal is a label
  Label(const char* text, std::int64_t number) : what(text), index(number) {}
  std::string text() const;
};

// An operation in progress. Movable. Destroying it does not wait: without wait() the operation
// continues, and device memory that it touches is held until it completes.
class Work {
 public:
  // State that an implementation keeps for an operation that is not complete.
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual bool done() = 0;
    virtual void wait() = 0;
    // The holder goes away without waiting.
    virtual void detach() = 0;
  };

  Work() = default;  // complete
  explicit Work(std::unique_ptr<Pending> pending) : pending_(std::move(pending)) {}
  ~Work() { settle(); }
  Work(Work&&) noexcept = default;
  Work& operator=(Work&& other) noexcept;  // destroys what was held before

  // Whether it is complete. Does not wait.
  bool done();
  // Returns when it is complete; then, and whenever called again, costs nothing.
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
  void* data;  // read only where direction is send
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
  // The same group for data in the host's memory.
  virtual Communicator& on_host() { return *this; }

  // data[count] becomes the reduction over all members, in place.
  virtual Work all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction,
                          Label label) = 0;
  // src[size * count] of every member is reduced; dst[count] gets the part of this rank. `dst` may
  // be that very part of `src`; otherwise they do not overlap, and `src` is left as it was.
  virtual Work reduce_scatter(const void* src, void* dst, std::int64_t count, DType dtype,
                              Reduction reduction, Label label) = 0;
  // dst[size * count] gets src[count] of every member, in group order. `src` may be this rank's
  // part of `dst`; otherwise they do not overlap.
  virtual Work all_gather(const void* src, void* dst, std::int64_t count, DType dtype,
                          Label label) = 0;
  // data[count] of `root` goes to all members.
  virtual Work broadcast(void* data, std::int64_t count, DType dtype, int root, Label label) = 0;
  // Part k of src[size * count] goes to member k; part k of dst[size * count] comes from it. The
  // two do not overlap.
  virtual Work all_to_all(const void* src, void* dst, std::int64_t count, DType dtype,
                          Label label) = 0;
  // Complete when all members have called it.
  virtual Work barrier(Label label) = 0;
  // All transfers start together and the Work is complete when all are; their order within the call
  // matters only among those between the same two ranks. A rank may not be its own peer.
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

// Bytes that each of `ranks` sends for a collective, for plans: `bytes` is the size of the buffer
// of an all_reduce, and of the whole of an all_gather or reduce_scatter.
double all_reduce_traffic(double bytes, int ranks);
double scatter_traffic(double bytes, int ranks);

// A group of one: nothing is sent and every operation completes immediately. Without `copies`
// results stay where they are, for addresses with no memory behind them.
std::unique_ptr<Communicator> make_self_communicator(int world_rank, std::string name,
                                                     bool copies = true);

}  // namespace trireme
