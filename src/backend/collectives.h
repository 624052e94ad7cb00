// The collectives of a device's library (NCCL, RCCL) as plain functions. comm/device_communicator.h
// makes a Communicator of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/dtype.h"

namespace trireme {

class Queue;

// What one rank of a group makes and all others need to find it. Opaque.
struct CollectiveId {
  char bytes[128] = {};
};

// Messages among the ranks of a group by way of their hosts' memory: what a substitute for a
// library works with. A real library finds its own ways and never asks.
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
  // All start together; those between the same two ranks match in the order in which both post
  // them. What they point to stays until they are done.
  virtual std::unique_ptr<Transfer> start(std::span<const Message> messages) = 0;
};

// Functions with the meaning of NCCL's, of which it asks no more than version 2.13 has. All but
// `name` and `error_text` return 0 or an error's number; a queue is one of the device's. Operations
// run in the order of their queue; those between group_start and group_end start together. Integer
// sums and maxima are exact; sums of other types have an order of the library's own, the same for
// the same ranks and sizes. Counts are of elements; of what one rank sends in all_gather, and gets
// in reduce_scatter. Both may be in place, as the Communicator's may.
struct CollectiveTable {
  // "NCCL 2.28.9"
  std::string (*name)();
  std::string (*error_text)(int error);

  int (*make_id)(CollectiveId*);
  // All ranks of the group together, from any thread; does not return before all have called it.
  // `host_messages` outlives the communicator.
  int (*join)(void** communicator, int size, const CollectiveId&, int rank,
              HostMessages* host_messages);
  // Waits for what is under way.
  int (*destroy)(void* communicator);
  // Ends what is under way and destroys; safe from any thread.
  int (*abort)(void* communicator);
  // What went wrong in the background; 0 if nothing.
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
