// Report on the GPUs behind a plug-in for `trireme doctor`.
#pragma once

#include "backend/machine_report.h"

namespace trireme::gpu {

// Never throws for want of a driver or a GPU: `problem` says so. Measures copies between GPUs,
// which takes a fraction of a second for each pair.
MachineReport report();

}  // namespace trireme::gpu
