// Semantics and checks of [offload].
#pragma once

#include "config/config.h"

namespace trireme {

// Whether data offloaded to `where` leaves run.device's memory: "host" does on GPUs, "file"
// everywhere.
bool leaves_memory(const Config& config, OffloadPlace where);

// Refuses contradictions, and conflicts with states and activations offloaded to files.
void check_offload(const Config& config);

}  // namespace trireme
