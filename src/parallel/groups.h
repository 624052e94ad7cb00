// The communicators of a rank, one for each kind of traffic: messages that must not wait in one
// queue with others have a communicator of their own.
#pragma once

#include <memory>
#include <vector>

#include "backend/device.h"
#include "comm/device_watch.h"
#include "comm/mesh.h"
#include "comm/transport.h"

namespace trireme {

struct Groups {
  std::unique_ptr<DeviceWatch> watch;     // of those in device memory; after them it goes
  std::unique_ptr<Communicator> tensor;   // pieces of a layer
  std::unique_ptr<Communicator> context;  // parts of a sequence
  // The same ranks: what a ring passes on while a GPU computes. Null on the CPU, whose messages
  // wait for nothing, and without a ring.
  std::unique_ptr<Communicator> ring;
  std::unique_ptr<Communicator> kv;      // the same heads of keys and values; null if one has them
  std::unique_ptr<Communicator> shard;   // one copy of the states: gradients
  std::unique_ptr<Communicator> gather;  // the same ranks: parameters
  std::unique_ptr<Communicator> replicate;  // copies of such a group: gradients
  // Ranks that share the experts of a layer, null without expert parallelism; and, among those that
  // have the same experts, the groups as above, null if they equal the ranks above
  // (MeshDegrees::experts_apart).
  std::unique_ptr<Communicator> expert, expert_shard, expert_gather, expert_replicate;
  std::unique_ptr<Communicator> pipeline;   // stages, by pipeline rank
  std::unique_ptr<Communicator> embedding;  // first and last stage; one member where they are one
  std::unique_ptr<Communicator> world;      // the step's totals, in the host's memory

  // Groups of a bucket's gradients, of its parameters, and of copies of its gradients.
  Communicator& shard_of(bool experts) const { return experts ? *expert_shard : *shard; }
  Communicator& gather_of(bool experts) const { return experts ? *expert_gather : *gather; }
  Communicator& replicate_of(bool experts) const {
    return experts ? *expert_replicate : *replicate;
  }
};

// Ranks that share one copy of the states, and those that hold copies of it, for a ZeRO stage:
// without ZeRO everyone has a copy.
Axes shard_axes(int zero);
Axes replicate_axes(int zero);
// World ranks, ascending, that do the same for the experts of `rank`.
std::vector<int> expert_shard_group(const Mesh& mesh, int rank, int zero);
std::vector<int> expert_replicate_group(const Mesh& mesh, int rank, int zero);

// How sums on a GPU's queues are made.
struct SumOptions {
  bool fixed_order = true;  // of f32 too, as exact numerics need
  // Memory for parts that are added in the order of ranks, for tensor-parallel sums and for those
  // of gradients: at least least_sum_bytes() each.
  std::byte *tensor = nullptr, *gradients = nullptr;
  std::int64_t tensor_bytes = 0, gradient_bytes = 0;
};
// Least size of such a memory: 16 bytes for each rank.
std::int64_t least_sum_bytes(const Mesh& mesh);

// All ranks together; all but `world` are for data in the memory of `device`: by its library of
// collectives, or without one by way of the host. `ring`: attention passes keys and values on.
Groups make_groups(const Mesh& mesh, int zero, bool ring, Transport& transport, Device& device,
                   const SumOptions& sums);
// Groups of a single rank.
Groups make_lone_groups();

}  // namespace trireme
