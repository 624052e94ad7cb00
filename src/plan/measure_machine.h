// Measures the processors of a machine, and writes what `trireme plan --machine` reads.
#pragma once

#include <functional>
#include <string>

#include "comm/transport.h"
#include "plan/machine.h"

namespace trireme {

// All ranks together, at the same time and with the threads that they train with, since they share
// caches, memory and clocks; what the slowest of them takes counts. A device of the machine is one
// rank. Steps in bf16 and in fp32 say how much slower kernels are within a step. Takes about a
// minute. Fails (exit code 2) where the ranks lie on several nodes: what lies between them is not
// measured.
// `tell`, if any, hears what is being measured.
Machine measure_machine(Transport& transport,
                        const std::function<void(const std::string&)>& tell = {});

// The file, each figure with where it comes from.
std::string machine_file(const Machine& machine);

}  // namespace trireme
