// Groups from the mesh.
#include "parallel/groups.h"

#include "comm/staged.h"

namespace trireme {

Axes shard_axes(int zero) {
  return zero > 0 ? Axes::shard_cp : Axes::none;
}

Axes replicate_axes(int zero) {
  return zero > 0 ? Axes::dp_replicate : Axes::dp_cp;
}

Groups make_groups(const Mesh& mesh, int zero, Transport& transport, Device& device) {
  const int rank = transport.place().rank;
  const auto make_on_host = [&](std::vector<int> ranks, const char* name) {
    if (ranks.size() < 2) return make_self_communicator(rank, name);
    return transport.group(std::move(ranks), name);
  };
  const auto make = [&](std::vector<int> ranks, const char* name) {
    auto group = make_on_host(std::move(ranks), name);
    if (group->size() < 2 || device.target().device == DeviceKind::cpu) return group;
    return make_staged_communicator(device, std::move(group));
  };
  const auto along = [&](Axes axes, const char* name) {
    return make(mesh.group(rank, axes), name);
  };
  Groups groups;
  groups.tensor = along(Axes::tp, "tensor");
  groups.shard = along(shard_axes(zero), "shard");
  groups.gather = along(shard_axes(zero), "gather");
  groups.replicate = along(replicate_axes(zero), "replicate");
  groups.pipeline = along(Axes::pp, "pipeline");
  groups.embedding = make(mesh.embedding_group(rank), "embedding");
  groups.world = make_on_host(mesh.group(rank, Axes::world), "totals");
  return groups;
}

Groups make_lone_groups() {
  const auto make = [](const char* name) { return make_self_communicator(0, name); };
  return {make("tensor"),   make("shard"),     make("gather"), make("replicate"),
          make("pipeline"), make("embedding"), make("totals")};
}

}  // namespace trireme
