// Makes the device of a plug-in.
#pragma once

#include "backend/device.h"

namespace trireme::gpu {

// Lives until the process ends. `index`: of the GPUs that this process sees.
Device* make_device(const Target&, int index);

}  // namespace trireme::gpu
