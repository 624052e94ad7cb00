// Meaning and rules of [offload].
#pragma once

#include "config/config.h"

namespace trireme {

// Whether what a key of [offload] says leaves the memory that run.device computes in: "host" does
// on GPUs, "file" everywhere.
bool leaves_memory(const Config& config, OffloadPlace where);

// Refuses what contradicts itself, and what states and activations in files conflict with.
void check_offload(const Config& config);

}  // namespace trireme
