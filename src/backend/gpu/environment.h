// Environment settings of drivers and libraries, to be applied
// before a GPU's runtime starts.
#pragma once

#include <span>

namespace trireme::gpu {

struct DriverSetting {
  const char* name;
  const char* value;
};

// Settings for NVIDIA or for AMD GPUs.
std::span<const DriverSetting> driver_settings(bool for_amd);

// Sets the variables without replacing the user's values. Call
// before the first runtime call.
void set_environment(std::span<const DriverSetting> settings);

}  // namespace trireme::gpu
