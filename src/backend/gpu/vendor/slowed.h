// Reasons for throttling of a GPU, from NVML. AMD reports them differently on each generation,
// so they are unknown there.
#pragma once

#include <string>

namespace trireme::gpu {

// "heat, power brake"; empty if not throttled or unknown. `bus` as in GpuReport.
std::string slowed_by(const std::string& bus);

}  // namespace trireme::gpu
