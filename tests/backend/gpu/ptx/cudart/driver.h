// Driver state and failures of the CUDA runtime substitute. Environment variables turn it into
// a machine without a driver, with too little memory, or with a lost GPU:
//   TRIREME_PTX_DRIVER    version of the driver (13000); 0: none is installed
//   TRIREME_PTX_DEVICES   number of visible devices (1)
//   TRIREME_PTX_MEMORY    bytes of device memory (16 GiB)
//   TRIREME_PTX_LOST_AT   the launch, from 1, at which the device is lost
//   TRIREME_PTX_ORDER     another order of warps, and of arriving copies (0)
//   TRIREME_PTX_CONTRACT  1: products and sums without rounding are fused, as ptxas may do
//   TRIREME_PTX_REPORT    a file that receives each kernel's number of runs at exit
//   TRIREME_PTX_PLANT     KERNEL|FIND|N|REPLACE: the Nth FIND in the body of kernels whose names
//                         contain KERNEL is replaced; N = 0: every one
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <mutex>
#include <string>

namespace trireme::ptx {

std::int64_t setting(const char* name, std::int64_t otherwise);

// Must be held for all functions below and in streams.h.
extern std::recursive_mutex driver_mutex;

// Returns success, or the error of every call without a usable device or after a fault.
cudaError_t driver_state();
// Makes every later call fail with this code; cudaGetErrorString() appends the text.
void break_device(cudaError_t code, const std::string& text);
const char* error_text(cudaError_t code);

// The thread order of launches; also set by the plug-in's trireme_emulated_thread_order().
extern std::uint64_t thread_order;

}  // namespace trireme::ptx
