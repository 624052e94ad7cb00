// The settings, with the reason for each.
#include "backend/gpu/environment.h"

#include <array>
#include <cstdlib>

namespace trireme::gpu {
namespace {

constexpr std::array nvidia_ones = {
    // Loads all kernels at start-up. With lazy loading, a kernel's first launch may wait for
    // all running work, possibly a collective, which may itself be waiting for this rank's next
    // kernel: a deadlock.
    // (CUDA C++ Programming Guide, "Lazy Loading", "Concurrent Execution")
    DriverSetting{"CUDA_MODULE_LOADING", "EAGER"},
    // Enough connections for our queues and NCCL's streams, so that none waits for another.
    DriverSetting{"CUDA_DEVICE_MAX_CONNECTIONS", "32"},
    // NCCL's blocks occupy whole SMs while products run; this many suffice for the
    // bandwidth of a node's links.
    DriverSetting{"NCCL_MAX_CTAS", "16"},
    // Sums in NVLink switches (NVLS) vary between calls (github.com/NVIDIA/nccl, issue 1497).
    DriverSetting{"NCCL_NVLS_ENABLE", "0"},
};
constexpr std::array amd_ones = {
    // The default of 4 maps two of our six queues and RCCL's to one hardware queue, where a
    // collective may block the kernel that its other ranks wait for.
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
