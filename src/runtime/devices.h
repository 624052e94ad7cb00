// The device that a configuration names.
#pragma once

#include <string>

#include "backend/device.h"

namespace trireme {

// `name` as in run.device: the CPU, or the GPU of a plug-in, which is loaded now. TRIREME_WAVE=64
// in the environment gives the emulated GPU waves of 64 lanes instead of 32. Lives until the
// process ends. Throws Error where there is no such device.
Device& device_of(const std::string& name);

// What a plan for such a device is made for; needs no device and no plug-in.
Target target_of(const std::string& name);

}  // namespace trireme
