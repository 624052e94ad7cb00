// Groups from the mesh.
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

std::int64_t least_sum_bytes(const Mesh& mesh) {
  return least_staging * mesh.size();
}

Groups make_groups(const Mesh& mesh, int zero, Transport& transport, Device& device,
                   const SumOptions& sums) {
  const int rank = transport.place().rank;
  const bool in_host_memory = device.target().device == DeviceKind::cpu || !device.computes();
  std::string problem;
  const bool has_library = !in_host_memory && device.collectives(problem);
  Groups groups;
  if (has_library && mesh.size() > 1)
    groups.watch = std::make_unique<DeviceWatch>(device, transport);
  const auto make_on_host = [&](std::vector<int> ranks, const char* name) {
    if (ranks.size() < 2) return make_self_communicator(rank, name);
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
  groups.shard = along(shard_axes(zero), "shard", QueueRole::reduce);
  groups.gather = along(shard_axes(zero), "gather", QueueRole::gather);
  groups.replicate = along(replicate_axes(zero), "replicate", QueueRole::reduce);
  groups.pipeline = along(Axes::pp, "pipeline", QueueRole::pipeline);
  groups.embedding = make(mesh.embedding_group(rank), "embedding", QueueRole::reduce);
  groups.world = make_on_host(mesh.group(rank, Axes::world), "totals");
  return groups;
}

Groups make_lone_groups() {
  const auto make = [](const char* name) { return make_self_communicator(0, name); };
  return {nullptr,           make("tensor"),   make("context"),   make("shard"), make("gather"),
          make("replicate"), make("pipeline"), make("embedding"), make("totals")};
}

}  // namespace trireme
