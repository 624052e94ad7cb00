// Why a GPU runs slower than it could, as NVIDIA's management library says; AMD's tells it in other
// ways on each generation, so there it is not known.
#pragma once

#include <string>

namespace trireme::gpu {

// "heat, power brake"; empty if nothing slows it, or if nobody knows. `bus` as in GpuReport.
std::string slowed_by(const std::string& bus);

}  // namespace trireme::gpu
