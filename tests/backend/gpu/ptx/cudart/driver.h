// What the substitute for CUDA's runtime answers, and how it fails. Variables of the environment
// make it a machine without a driver, with too little memory, or one whose GPU is lost:
//   TRIREME_PTX_DRIVER    version of the driver (13000); 0: none is installed
//   TRIREME_PTX_DEVICES   how many devices are visible (1)
//   TRIREME_PTX_MEMORY    bytes of device memory (16 GiB)
//   TRIREME_PTX_LOST_AT   the launch, from 1, at which the device is lost
//   TRIREME_PTX_ORDER     another order of warps, and of copies that arrive (0)
//   TRIREME_PTX_CONTRACT  1: products and sums without a rounding are fused, as ptxas may do
//   TRIREME_PTX_REPORT    a file that says at exit how often each kernel ran
//   TRIREME_PTX_PLANT     KERNEL|FIND|N|REPLACE: the Nth FIND in the body of kernels whose names
//                         contain KERNEL is replaced; N = 0: every one
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <mutex>
#include <string>

namespace trireme::ptx {

std::int64_t setting(const char* name, std::int64_t otherwise);

// Everything below and in streams.h is called with this held.
extern std::recursive_mutex driver_mutex;

// Success, or what every call answers where there is no usable device or after a fault.
cudaError_t driver_state();
// From now on every call fails with this code, and cudaGetErrorString() adds the text.
void break_device(cudaError_t code, const std::string& text);
const char* error_text(cudaError_t code);

// The order of launches; also the function trireme_emulated_thread_order() of the plug-in.
extern std::uint64_t thread_order;

}  // namespace trireme::ptx
