// Report on a plug-in's GPUs for `trireme doctor`.
#pragma once

#include "backend/machine_report.h"

namespace trireme::gpu {

// A missing driver or GPU is reported in `problem`, not thrown. Measures copies between GPUs, which
// takes a fraction of a second per pair.
MachineReport report();

}  // namespace trireme::gpu
