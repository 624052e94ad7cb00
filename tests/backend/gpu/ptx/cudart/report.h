// Report of kernel runs: TRIREME_PTX_REPORT names a file that gets a line per kernel.
#pragma once

#include <string>

#include "backend/gpu/ptx/machine.h"

namespace trireme::ptx {

// Registers a kernel that could run.
void note_kernel(const std::string& name);
// Calls run() and counts it.
void run_and_report(const Launch& launch);

}  // namespace trireme::ptx
