// What has run: TRIREME_PTX_REPORT names a file that gets a line for every kernel of the program.
#pragma once

#include <string>

#include "backend/gpu/ptx/machine.h"

namespace trireme::ptx {

// A kernel that could run.
void note_kernel(const std::string& name);
// run(), counted.
void run_and_report(const Launch& launch);

}  // namespace trireme::ptx
