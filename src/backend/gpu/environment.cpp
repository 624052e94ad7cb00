// Each setting with its reason.
#include "backend/gpu/environment.h"

#include <array>
#include <cstdlib>

namespace trireme::gpu {
namespace {

constexpr std::array nvidia_ones = {
    // A kernel that is loaded at its first launch may wait for all that runs, and what runs may be
    // a
    // collective that waits for this rank's next kernel: kernels are loaded at the start.
    // (CUDA C++ Programming Guide, "Lazy Loading", "Concurrent Execution")
    DriverSetting{"CUDA_MODULE_LOADING", "EAGER"},
    // As many connections as queues and streams of NCCL together, so that none waits for another.
    DriverSetting{"CUDA_DEVICE_MAX_CONNECTIONS", "32"},
    // Blocks of NCCL take whole multiprocessors from products that run at the same time; this many
    // move as much as the links of a node carry.
    DriverSetting{"NCCL_MAX_CTAS", "16"},
    // Sums in NVLink's switches differ from call to call (github.com/NVIDIA/nccl, issue 1497).
    DriverSetting{"NCCL_NVLS_ENABLE", "0"},
};
constexpr std::array amd_ones = {
    // The default of 4 maps two of our six queues and RCCL's to one of the hardware, where a
    // collective may stand in front of the kernel that its other ranks wait for.
    DriverSetting{"GPU_MAX_HW_QUEUES", "8"},
    DriverSetting{"NCCL_NVLS_ENABLE", "0"},
};

}  // namespace

std::span<const DriverSetting> driver_settings(bool for_amd) {
  if (for_amd) return amd_ones;
  return nvidia_ones;
}

void set_environment(std::span<const DriverSetting> settings) {
  for (const DriverSetting& setting : settings) ::setenv(setting.name, setting.value, 0);
}

}  // namespace trireme::gpu
