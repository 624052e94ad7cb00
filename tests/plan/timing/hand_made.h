// Machines and records with round numbers.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "plan/timing/replay.h"

namespace trireme::testing_timing {

// Moves one byte per second and computes 1e12 flop/s, four tiles of 128 x 128 at a time.
inline MachineSpeed slow_machine() {
  MachineSpeed machine;
  machine.memory_bytes = 1e9;
  machine.memory_rate = machine.host_rate = 1;
  machine.bf16 = {1e12, 1e12};
  machine.units = 4;
  machine.tiles = {{128, 128, 1}};
  machine.devices = 8;
  machine.bus = {{2, 10}, {8, 4}};
  machine.pair = 5;
  machine.nics = 4;
  machine.nic = 0.5;
  return machine;
}

// Memory so fast that the time of a GEMM is that of its tiles.
inline MachineSpeed fast_memory() {
  MachineSpeed machine = slow_machine();
  machine.memory_rate = 1e15;
  return machine;
}

inline const Stack& own_stack() {
  return find_stack("trireme");
}

inline RecordedGroup group_of(const std::string& name, std::vector<int> ranks, int own = 0) {
  return {name, std::move(ranks), own};
}

inline std::vector<int> ranks_up_to(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

inline RecordedWork kernel(double bytes) {
  return {.kind = RecordedWork::Kind::kernel, .name = "kernel", .op = "", .bytes = bytes};
}

inline RecordedWork message(MessageKind kind, int group, double bytes, int peer = -1) {
  return {.kind = RecordedWork::Kind::message,
          .message = kind,
          .group = static_cast<std::int16_t>(group),
          .peer = peer,
          .name = "message",
          .bytes = bytes};
}

}  // namespace trireme::testing_timing
