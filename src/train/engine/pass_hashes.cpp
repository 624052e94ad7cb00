// An observer that hashes every output.
#include "train/engine/pass_hashes.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace trireme {
namespace {

// Range of the order numbers of one layer and direction.
constexpr std::int64_t places = std::int64_t{1} << 32;
constexpr std::int64_t at_embedding = 0, at_first_block = 1, at_head = std::int64_t{1} << 28;
constexpr std::int64_t way_back = std::int64_t{1} << 29;

std::int64_t order_of(const Launch& launch) {
  const std::int64_t along = launch.layer >= 0                  ? at_first_block + launch.layer
                             : launch.graph.input() == no_value ? at_embedding
                                                                : at_head;
  return launch.node.phase == Phase::forward ? along : way_back + at_head - along;
}

}  // namespace

bool has_room_to_spare(OpKind op) {
  using enum OpKind;
  constexpr OpKind roomy[] = {
      route,          route_grad,          routed_tokens,  dispatch,
      permute_rows,   unpermute_rows,      grouped_linear, grouped_linear_input_grad,
      remote_experts, remote_experts_grad, combine_grad,   gate_rows,
      gate_rows_grad, all_to_all};
  return std::ranges::find(roomy, op) != std::end(roomy);
}

std::string to_text(const OpHash& op) {
  const std::string where = op.layer >= 0 ? fmt::format(" of layer {}", op.layer) : "";
  return fmt::format("{}{} ({})", definition(static_cast<OpKind>(op.op)).name, where,
                     op.forward ? "forward" : "backward");
}

void PassHashes::after(const Launch& launch) {
  std::uint64_t hash = 0;
  for (int i = 0; i < Node::max_outputs; ++i) {
    const ValueId id = launch.node.outputs[i];
    if (id == no_value || !launch.out[i]) continue;
    const Value& value = launch.graph.value(id);
    if (has_room_to_spare(launch.node.op) && value.role != Role::gradient) continue;
    device_.read(launch.out[i], value.bytes(), [&](const std::byte* host) {
      hash = hash64(host, static_cast<std::size_t>(value.bytes()), hash);
    });
  }
  ops_.push_back({hash, order_of(launch) * places + static_cast<std::int64_t>(ops_.size()),
                  static_cast<std::int32_t>(launch.node.op), launch.layer,
                  launch.node.phase == Phase::forward, 0});
}

std::uint64_t digest_of(const std::vector<OpHash>& ops) {
  return hash64(ops.data(), ops.size() * sizeof(OpHash));
}

std::optional<OpHash> first_difference(const std::vector<OpHash>& a, const std::vector<OpHash>& b) {
  std::optional<OpHash> first;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].hash != b[i].hash && (!first || a[i].order < first->order)) first = a[i];
  }
  return first;
}

}  // namespace trireme
