// Duration of one kernel and one message of a recorded step on a machine.
#pragma once

#include <array>
#include <string>

#include "backend/recording/record.h"
#include "plan/timing/speed.h"
#include "plan/timing/stack.h"

namespace trireme {

// Category of a time interval.
enum class TimeKind : std::uint8_t {
  products,
  attention,
  kernels,  // all other kernels of the model
  states,   // gradient reduction, the optimizer
  host,     // waiting for the host
  tensor,   // messages within layers
  context,
  experts,
  pipeline,
  gradients,
  parameters,
  offload,  // copies to and from host memory
  totals,
  count,
};
inline constexpr std::size_t time_kinds = static_cast<std::size_t>(TimeKind::count);
const char* name_of(TimeKind kind);
using TimeByKind = std::array<double, time_kinds>;

// Category of a process group's messages, by its name.
TimeKind kind_of_group(const std::string& group);

// Costs common to all messages of a group.
struct GroupCosts {
  TimeKind kind = TimeKind::gradients;
  int on_node = 1, nodes = 1;  // members on the fullest node, and nodes with members
};

class CostModel {
 public:
  // `wide`: products in 32 bits. `machine` and `stack` must outlive the model.
  CostModel(const MachineSpeed& machine, const Stack& stack, double efficiency, bool wide);

  // Seconds of a kernel, a product, a copy or a host access, including its launch.
  double work(const RecordedWork& work) const;
  TimeKind kind_of(const RecordedWork& work) const;
  // Seconds of one matrix product, without memory and launch overhead.
  double product(const RecordedProductShape& shape) const;

  GroupCosts costs_of(const RecordedGroup& group) const;
  // Seconds of a message from its start on all ranks to its end. For a receive: 0, since the sender
  // has the cost. `costs`: those of its group.
  double message(const RecordedWork& message, const RecordedGroup& group,
                 const GroupCosts& costs) const;
  double message(const RecordedWork& one, const RecordedGroup& group) const {
    return message(one, group, costs_of(group));
  }
  // Device time in addition to a message: passes over gradients and gathered parameters.
  double beside(const RecordedWork& message, const RecordedGroup& group,
                const GroupCosts& costs) const;
  double host() const { return host_; }
  double efficiency() const { return efficiency_; }

  const MachineSpeed& machine() const { return machine_; }
  const Stack& stack() const { return stack_; }

 private:
  double transfer(const RecordedWork& message, const RecordedGroup& group,
                  const GroupCosts& costs) const;
  // Share of the ceiling reached by a product of this kind.
  double share_of(const RecordedWork& product) const;
  // Bytes that a kernel reads and writes.
  double traffic_of(const RecordedWork& kernel) const;

  const MachineSpeed& machine_;
  const Stack& stack_;
  const ProductRate& rate_;
  double efficiency_, ceiling_, element_, host_;
  double memory_rate_;  // of kernels
};

}  // namespace trireme
