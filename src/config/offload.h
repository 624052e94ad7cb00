// Semantics and checks of [offload].
#pragma once

#include "config/config.h"

namespace trireme {

// Whether an offload target is outside run.device's memory: "host" is on GPUs, "file" always
// is.
bool leaves_memory(const Config& config, OffloadPlace where);

// Refuses contradictions, and conflicts with states and activations offloaded to files.
void check_offload(const Config& config);

}  // namespace trireme
