// Roofline model of kernels, and ring collectives over links and network cards.
#include "plan/timing/costs.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"

namespace trireme {
namespace {

using Kind = RecordedWork::Kind;

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Bytes of the full buffer of a collective; `message` has the bytes sent by one rank.
double whole_bytes(const RecordedWork& message, const RecordedGroup& group) {
  const auto ranks = static_cast<double>(group.ranks.size());
  return message.bytes * ranks / (ranks - 1) / (message.message == MessageKind::all_reduce ? 2 : 1);
}

double bus_rate(const MachineSpeed& machine, int ranks) {
  for (const BusRate& bus : machine.bus)
    if (ranks <= bus.devices) return bus.rate;
  return machine.bus.empty() ? 0 : machine.bus.back().rate;
}

}  // namespace

const char* name_of(TimeKind kind) {
  constexpr std::array<const char*, time_kinds> names = {
      "products",         "attention", "other kernels", "optimizer and sums", "host",
      "layers' messages", "sequences", "experts",       "pipeline",           "gradients",
      "parameters",       "offload",   "totals"};
  return names[static_cast<std::size_t>(kind)];
}

TimeKind kind_of_group(const std::string& group) {
  if (group == "tensor") return TimeKind::tensor;
  if (group == "context") return TimeKind::context;
  if (group == "pipeline") return TimeKind::pipeline;
  if (group == "expert") return TimeKind::experts;
  if (group == "gather" || group == "expert gather") return TimeKind::parameters;
  return group == "totals" || group == "world" ? TimeKind::totals : TimeKind::gradients;
}

CostModel::CostModel(const MachineSpeed& machine, const Stack& stack, double efficiency, bool wide)
    : machine_(machine),
      stack_(stack),
      rate_(wide ? machine.fp32 : machine.bf16),
      efficiency_(efficiency),
      ceiling_(rate_.ceiling),
      element_(wide ? 4 : 2),
      host_(stack.host > 0 ? stack.host : machine.host),
      memory_rate_(machine.memory_rate * (stack.memory_at_rate ? 1 : efficiency)) {
  TRIREME_CHECK(ceiling_ > 0 && efficiency > 0);
}

// The best tile size, with split-K if there are too few tiles.
double CostModel::product(const RecordedProductShape& shape) const {
  const auto rows = static_cast<double>(shape.rows), columns = static_cast<double>(shape.columns),
             inner = static_cast<double>(shape.inner);
  double best = INFINITY;
  for (const ProductTile& tile : machine_.tiles) {
    for (double split = 1; split <= 8; split *= 2) {
      if (split > 1 && inner / split < 512) break;
      const double tiles = std::ceil(rows / tile.rows) * std::ceil(columns / tile.columns) *
                           static_cast<double>(shape.groups) * split;
      const double wave = 2 * tile.rows * tile.columns * (inner / split + machine_.half_depth) *
                          machine_.units / (ceiling_ * tile.share);
      const double sums = split > 1 ? 8 * split * rows * columns / machine_.memory_rate : 0;
      best = std::min(best, std::ceil(tiles / machine_.units) * wave + sums);
    }
  }
  return best;
}

double CostModel::share_of(const RecordedWork& work) const {
  const std::string_view name = work.name;
  if (has(name, "input gradient")) return rate_.input_grad;
  return has(name, "weight gradient") ? rate_.weight_grad : 1;
}

TimeKind CostModel::kind_of(const RecordedWork& work) const {
  if (work.kind == Kind::product) return TimeKind::products;
  if ((work.kind == Kind::load || work.kind == Kind::store) && work.operation >= 0)
    return TimeKind::offload;
  if (work.kind != Kind::kernel || !*work.op)
    return *work.op ? TimeKind::kernels : TimeKind::states;
  return work.flops > 0 && has(work.op, "attention") ? TimeKind::attention : TimeKind::kernels;
}

double CostModel::traffic_of(const RecordedWork& work) const {
  if (work.flops > 0 || !*work.op) return work.bytes;
  const std::string_view op = work.op;
  // Our kernel reads each logit and overwrites it with its gradient; statistics of logits in parts
  // need one more pass.
  if (stack_.loss_traffic > 0) {
    if (op == "classifier") return work.bytes * stack_.loss_traffic / (2 * element_);
    if (op == "softmax_stats" || op == "cross_entropy_grad")
      return work.bytes * stack_.loss_traffic / (3 * element_);
  }
  return work.bytes * stack_.traffic;
}

double CostModel::work(const RecordedWork& work) const {
  switch (work.kind) {
    case Kind::product: {
      const RecordedProductShape& p = work.product;
      const auto rows = static_cast<double>(p.rows), columns = static_cast<double>(p.columns),
                 inner = static_cast<double>(p.inner);
      const double bytes = std::max(
          work.bytes, element_ * p.groups * (rows * inner + inner * columns + rows * columns));
      return std::max(product(p) / (share_of(work) * efficiency_), bytes / memory_rate_) +
             machine_.launch;
    }
    case Kind::kernel: {
      const bool grad = has(work.op, "_grad");
      const double share = stack_.is_own() ? (grad ? machine_.own_grad : machine_.own)
                           : stack_.flash2 ? (grad ? machine_.flash2_grad : machine_.flash2)
                                           : (grad ? machine_.attention_grad : machine_.attention);
      const double flops = work.flops / (ceiling_ * share * efficiency_);
      return std::max(flops, traffic_of(work) / memory_rate_) + machine_.launch;
    }
    case Kind::copy:
      return 2 * work.bytes / machine_.memory_rate + machine_.launch;
    case Kind::fill:
      return work.bytes / machine_.memory_rate + machine_.launch;
    case Kind::write:
    case Kind::read:
    case Kind::load:
    case Kind::store:
      return work.bytes / machine_.host_rate + machine_.launch;
    case Kind::wait:
    case Kind::message:
    case Kind::piece:
      break;
  }
  return 0;
}

GroupCosts CostModel::costs_of(const RecordedGroup& group) const {
  GroupCosts costs{kind_of_group(group.name), 0, 0};
  int node = -1, count = 0;
  for (const int rank : group.ranks) {
    if (rank / machine_.devices != node) {
      node = rank / machine_.devices;
      ++costs.nodes;
      count = 0;
    }
    costs.on_node = std::max(costs.on_node, ++count);
  }
  return costs;
}

// A ring enters and leaves each node once per device of the group on that node; groups of the
// node's other devices use the other network cards.
double CostModel::transfer(const RecordedWork& message, const RecordedGroup& group,
                           const GroupCosts& costs) const {
  const int devices = machine_.devices;
  const bool pairs =
      message.message == MessageKind::send || message.message == MessageKind::exchange;
  if (pairs) {
    const int own = group.ranks[static_cast<std::size_t>(group.own)];
    const int peer = group.ranks[static_cast<std::size_t>(message.peer)];
    if (own / devices == peer / devices)
      return machine_.node_latency + message.bytes / machine_.pair;
    // All devices of the node between the two send at the same time.
    const int at_once = std::min(std::abs(own - peer), devices);
    return machine_.network_latency +
           message.bytes / std::min(machine_.nic, machine_.nics * machine_.nic / at_once);
  }
  double rate = costs.on_node > 1 ? bus_rate(machine_, costs.on_node) : INFINITY;
  double latency = costs.on_node > 1 ? machine_.node_latency : 0;
  double half = machine_.node_half;
  if (costs.nodes > 1) {
    rate = std::min(rate, machine_.nics * machine_.nic * costs.on_node / devices);
    latency += machine_.network_latency * std::ceil(std::log2(costs.nodes));
    half = machine_.network_half;
  }
  if (message.bytes == 0) return latency;
  // Half the rate at that size, but not less for smaller messages, which use other protocols.
  const double slower = 1 + std::min(1.0, half / whole_bytes(message, group));
  return latency + slower * message.bytes / rate;
}

double CostModel::message(const RecordedWork& message, const RecordedGroup& group,
                          const GroupCosts& costs) const {
  if (message.message == MessageKind::receive) return 0;
  if (costs.kind != TimeKind::gradients) return transfer(message, group, costs);
  RecordedWork scaled = message;
  scaled.bytes *= stack_.gradient_bytes;
  return transfer(scaled, group, costs);
}

double CostModel::beside(const RecordedWork& message, const RecordedGroup& group,
                         const GroupCosts& costs) const {
  const bool reorders =
      message.message == MessageKind::all_gather || message.message == MessageKind::reduce_scatter;
  const double passes = costs.kind == TimeKind::gradients            ? stack_.gradient_passes
                        : costs.kind == TimeKind::parameters         ? stack_.gather_passes
                        : costs.kind == TimeKind::tensor && reorders ? stack_.tensor_passes
                                                                     : 0;
  return passes > 0 ? passes * whole_bytes(message, group) / machine_.memory_rate : 0;
}

}  // namespace trireme
