// Creates the device of a plug-in.
#pragma once

#include "backend/device.h"

namespace trireme::gpu {

// The device lives until the process ends. `index` counts the GPUs visible to this process.
Device* make_device(const Target&, int index);

}  // namespace trireme::gpu
