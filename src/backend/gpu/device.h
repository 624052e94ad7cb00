// Makes the device of a plug-in.
#pragma once

#include "backend/device.h"

namespace trireme::gpu {

// Lives until the process ends.
Device* make_device(const Target&);

}  // namespace trireme::gpu
