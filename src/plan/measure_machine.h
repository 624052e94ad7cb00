// Benchmarks the processors of a machine and creates the file for `trireme plan --machine`.
#pragma once

#include <functional>
#include <string>

#include "comm/transport.h"
#include "plan/machine.h"

namespace trireme {

// Collective. All ranks measure at the same time with the threads used in training,
// since they share caches, memory and clocks; the slowest rank counts. Each rank stands
// for one device of the machine. Steps in bf16 and in fp32 measure how much slower
// kernels are within a step. Takes about one minute. Fails (exit code 2) if the ranks
// span several nodes: the network is not measured. `tell`, if set, is called with
// progress messages.
Machine measure_machine(Transport& transport,
                        const std::function<void(const std::string&)>& tell = {});

// Formats the machine file, with the origin of each figure.
std::string machine_file(const Machine& machine);

}  // namespace trireme
