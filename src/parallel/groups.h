// The communicators of a rank, one for each kind of traffic: messages that must not queue behind
// others have a separate communicator.
#pragma once

#include <memory>
#include <vector>

#include "backend/device.h"
#include "comm/device_watch.h"
#include "comm/mesh.h"
#include "comm/transport.h"

namespace trireme {

struct Groups {
  std::unique_ptr<DeviceWatch> watch;     // watches those in device memory; destroyed after them
  std::unique_ptr<Communicator> tensor;   // tensor-parallel ranks
  std::unique_ptr<Communicator> context;  // context-parallel ranks
  // The same ranks as `context`, for ring messages that overlap with GPU computation. Null on the
  // CPU, where messages are never queued, and if no ring is used.
  std::unique_ptr<Communicator> ring;
  std::unique_ptr<Communicator> kv;      // ranks with the same KV heads; null if there is only one
  std::unique_ptr<Communicator> shard;   // ranks that share one copy of the states: gradients
  std::unique_ptr<Communicator> gather;  // the same ranks as `shard`: parameters
  std::unique_ptr<Communicator> replicate;  // copies of the shard group: gradients
  // Ranks that share the experts of a layer (null without expert parallelism); and, over the ranks
  // that hold the same experts, the groups as above (null if equal to those groups, see
  // MeshDegrees::experts_apart).
  std::unique_ptr<Communicator> expert, expert_shard, expert_gather, expert_replicate;
  std::unique_ptr<Communicator> pipeline;   // stages, by pipeline rank
  std::unique_ptr<Communicator> embedding;  // first and last stage; one member if they are the same
  std::unique_ptr<Communicator> world;      // per-step totals, in host memory

  // Groups for a bucket's gradients, for its parameters, and for the copies of its gradients.
  Communicator& shard_of(bool experts) const { return experts ? *expert_shard : *shard; }
  Communicator& gather_of(bool experts) const { return experts ? *expert_gather : *gather; }
  Communicator& replicate_of(bool experts) const {
    return experts ? *expert_replicate : *replicate;
  }
};

// Axes of the ranks that share one copy of the states, and of those that hold copies of it, for a
// ZeRO stage: without ZeRO every rank has a full copy.
Axes shard_axes(int zero);
Axes replicate_axes(int zero);
// World ranks, ascending, that do the same for the experts of `rank`: share, or hold copies.
std::vector<int> expert_shard_group(const Mesh& mesh, int rank, int zero);
std::vector<int> expert_replicate_group(const Mesh& mesh, int rank, int zero);

// Reduction options for communicators on a GPU's queues.
struct SumOptions {
  bool fixed_order = true;  // of f32 too, as exact numerics require
  // Buffers for sums in rank order, for tensor-parallel sums and for gradients: each has at least
  // least_sum_bytes() bytes.
  std::byte *tensor = nullptr, *gradients = nullptr;
  std::int64_t tensor_bytes = 0, gradient_bytes = 0;
};
// Minimum size of such a buffer: 16 bytes per rank.
std::int64_t least_sum_bytes(const Mesh& mesh);

// Creates all groups; collective. All but `world` are for data in the memory of `device`: by its
// collective library, or without one through the host. `ring`: attention passes keys and values on.
Groups make_groups(const Mesh& mesh, int zero, bool ring, Transport& transport, Device& device,
                   const SumOptions& sums);
// Creates the groups of a single rank.
Groups make_lone_groups();

}  // namespace trireme
