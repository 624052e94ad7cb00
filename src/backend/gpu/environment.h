// Settings of drivers and libraries that have to be in the environment before a GPU's runtime
// starts.
#pragma once

#include <span>

namespace trireme::gpu {

struct DriverSetting {
  const char* name;
  const char* value;
};

// Those for NVIDIA's and for AMD's GPUs.
std::span<const DriverSetting> driver_settings(bool for_amd);

// Puts them into the environment, without replacing what a user has set. Before the runtime's first
// call.
void set_environment(std::span<const DriverSetting> settings);

}  // namespace trireme::gpu
