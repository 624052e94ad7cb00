// The collectives of a device's library (NCCL, RCCL) as plain functions. comm/device_communicator.h
// builds a Communicator on them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/dtype.h"

namespace trireme {

class Queue;

// Opaque id that one rank of a group creates and all others need to join (as ncclUniqueId).
struct CollectiveId {
  char bytes[128] = {};
};

// Messages among the ranks of a group through host memory, for a substitute of a collective
// library. A real library has its own transports and never uses this.
class HostMessages {
 public:
  struct Message {
    bool sends;
    int peer;  // rank in the group
    void* data;
    std::int64_t bytes;
  };
  class Transfer {
   public:
    virtual ~Transfer() = default;
    virtual bool done() = 0;
  };

  virtual ~HostMessages() = default;
  // Starts all messages together. Messages between the same two ranks match in posting order. Their
  // buffers must stay valid until the transfer is done.
  virtual std::unique_ptr<Transfer> start(std::span<const Message> messages) = 0;
};

// Functions with NCCL semantics, limited to what version 2.13 offers. All but `name` and
// `error_text` return 0 or an error code; queues are the device's. Operations run in queue order;
// those between group_start and group_end start together. Integer sums and maxima are exact; other
// sums use the library's order, which is the same for the same ranks and sizes. Counts are in
// elements: per rank sent in all_gather, per rank received in reduce_scatter. Both may run in
// place, like the Communicator's.
struct CollectiveTable {
  // E.g. "NCCL 2.28.9".
  std::string (*name)();
  std::string (*error_text)(int error);

  int (*make_id)(CollectiveId*);
  // Called by all ranks of the group, from any thread; returns once all have called it.
  // `host_messages` must outlive the communicator.
  int (*join)(void** communicator, int size, const CollectiveId&, int rank,
              HostMessages* host_messages);
  // Waits for outstanding operations.
  int (*destroy)(void* communicator);
  // Aborts outstanding operations and destroys the communicator; thread-safe.
  int (*abort)(void* communicator);
  // Returns the asynchronous error, or 0.
  int (*async_error)(void* communicator);

  int (*group_start)();
  int (*group_end)();
  int (*all_reduce)(void* data, std::int64_t count, DType, bool maximum, void* communicator,
                    Queue&);
  int (*reduce_scatter)(const void* src, void* dst, std::int64_t count, DType, bool maximum,
                        void* communicator, Queue&);
  int (*all_gather)(const void* src, void* dst, std::int64_t count, DType, void* communicator,
                    Queue&);
  int (*broadcast)(void* data, std::int64_t count, DType, int root, void* communicator, Queue&);
  int (*send)(const void* data, std::int64_t count, DType, int peer, void* communicator, Queue&);
  int (*receive)(void* data, std::int64_t count, DType, int peer, void* communicator, Queue&);
};

}  // namespace trireme
