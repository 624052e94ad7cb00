// The communicators of a rank, one for each kind of traffic: messages that must not wait in one
// queue with others have a communicator of their own.
#pragma once

#include <memory>

#include "backend/device.h"
#include "comm/mesh.h"
#include "comm/transport.h"

namespace trireme {

struct Groups {
  std::unique_ptr<Communicator> tensor;     // pieces of a layer
  std::unique_ptr<Communicator> shard;      // one copy of the states: gradients
  std::unique_ptr<Communicator> gather;     // the same ranks: parameters
  std::unique_ptr<Communicator> replicate;  // copies of such a group: gradients
  std::unique_ptr<Communicator> pipeline;   // stages, by pipeline rank
  std::unique_ptr<Communicator> embedding;  // first and last stage; one member where they are one
  std::unique_ptr<Communicator> world;      // the step's totals, in the host's memory
};

// Ranks that share one copy of the states, and those that hold copies of it, for a ZeRO stage:
// without ZeRO everyone has a copy.
Axes shard_axes(int zero);
Axes replicate_axes(int zero);

// All ranks together; all but `world` are for data in the memory of `device`.
Groups make_groups(const Mesh& mesh, int zero, Transport& transport, Device& device);
// For a rank that is alone.
Groups make_lone_groups();

}  // namespace trireme
