// Creates process groups from the mesh.
#include "parallel/groups.h"

#include "comm/device_communicator.h"
#include "comm/staged.h"

namespace trireme {

Axes shard_axes(int zero) {
  return zero > 0 ? Axes::shard_cp : Axes::none;
}

Axes replicate_axes(int zero) {
  return zero > 0 ? Axes::dp_replicate : Axes::dp_cp;
}

std::vector<int> expert_shard_group(const Mesh& mesh, int rank, int zero) {
  if (zero == 0) return {rank};
  std::vector<int> ranks;
  for (const int other : mesh.expert_dp_group(rank)) {
    if (mesh.place_of(other).replicate == mesh.place_of(rank).replicate) ranks.push_back(other);
  }
  return ranks;
}

std::vector<int> expert_replicate_group(const Mesh& mesh, int rank, int zero) {
  return zero > 0 ? mesh.group(rank, Axes::dp_replicate) : mesh.expert_dp_group(rank);
}

std::int64_t least_sum_bytes(const Mesh& mesh) {
  return least_staging * mesh.size();
}

Groups make_groups(const Mesh& mesh, int zero, bool ring, Transport& transport, Device& device,
                   const SumOptions& sums) {
  const int rank = transport.place().rank;
  const bool in_host_memory = device.target().device == DeviceKind::cpu || !device.computes();
  std::string problem;
  const bool has_library = !in_host_memory && device.collectives(problem);
  Groups groups;
  if (has_library && mesh.size() > 1)
    groups.watch = std::make_unique<DeviceWatch>(device, transport);
  const auto make_on_host = [&](std::vector<int> ranks, const char* name) {
    // Addresses of a device that does not compute are not backed by memory.
    if (ranks.size() < 2) return make_self_communicator(rank, name, device.computes());
    return transport.group(std::move(ranks), name);
  };
  const auto make = [&](std::vector<int> ranks, const char* name, QueueRole queue) {
    if (ranks.size() < 2 || in_host_memory) return make_on_host(std::move(ranks), name);
    if (!has_library) return make_staged_communicator(device, make_on_host(std::move(ranks), name));
    const bool tensor = queue == QueueRole::compute;
    return make_device_communicator(
        device, *groups.watch, transport, std::move(ranks), name,
        {.queue = queue,
         .fixed_order = sums.fixed_order,
         .staging = tensor ? sums.tensor : sums.gradients,
         .staging_bytes = tensor ? sums.tensor_bytes : sums.gradient_bytes});
  };
  const auto along = [&](Axes axes, const char* name, QueueRole queue) {
    return make(mesh.group(rank, axes), name, queue);
  };
  groups.tensor = along(Axes::tp, "tensor", QueueRole::compute);
  groups.context = along(Axes::cp, "context", QueueRole::compute);
  // Every rank issues these messages and the gathers of parameters in the same order, so there is
  // no circular wait.
  if (ring && mesh.degrees().cp > 1 && device.target().device != DeviceKind::cpu)
    groups.ring = along(Axes::cp, "ring", QueueRole::gather);
  if (mesh.degrees().kv_copies > 1)
    groups.kv = make(mesh.kv_group(rank), "shared heads", QueueRole::reduce);
  groups.shard = along(shard_axes(zero), "shard", QueueRole::reduce);
  groups.gather = along(shard_axes(zero), "gather", QueueRole::gather);
  groups.replicate = along(replicate_axes(zero), "replicate", QueueRole::reduce);
  if (mesh.degrees().expert_ranks() > 1)
    groups.expert = make(mesh.expert_group(rank), "expert", QueueRole::compute);
  if (mesh.degrees().experts_apart()) {
    const std::vector<int> shard = expert_shard_group(mesh, rank, zero);
    groups.expert_shard = make(shard, "expert shard", QueueRole::reduce);
    groups.expert_gather = make(shard, "expert gather", QueueRole::gather);
    groups.expert_replicate =
        make(expert_replicate_group(mesh, rank, zero), "expert replicate", QueueRole::reduce);
  }
  groups.pipeline = along(Axes::pp, "pipeline", QueueRole::pipeline);
  groups.embedding = make(mesh.embedding_group(rank), "embedding", QueueRole::reduce);
  groups.world = make_on_host(mesh.group(rank, Axes::world), "totals");
  return groups;
}

Groups make_lone_groups() {
  const auto make = [](const char* name) { return make_self_communicator(0, name); };
  Groups groups;
  groups.tensor = make("tensor");
  groups.context = make("context");
  groups.shard = make("shard");
  groups.gather = make("gather");
  groups.replicate = make("replicate");
  groups.pipeline = make("pipeline");
  groups.embedding = make("embedding");
  groups.world = make("totals");
  return groups;
}

}  // namespace trireme
