// The program's kernels: the PTX of each host function, and the work of a launch.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace trireme::ptx {

// Packs the arguments immediately and returns the work that runs the kernel. Throws
// std::runtime_error for unsupported PTX, and Refused for sizes that an sm_80 device rejects.
std::function<void()> prepare_launch(const void* function, dim3 grid, dim3 threads,
                                     void** arguments, std::size_t dynamic_shared_bytes);

// Allows a kernel more than 48 KiB of shared memory. Returns false if sm_80 does not have so much.
bool allow_shared_bytes(const void* function, int bytes);
bool is_kernel(const void* function);
// Returns the shared memory that a kernel declares.
std::size_t static_shared_bytes(const void* function);

struct Refused {
  cudaError_t code;
};

}  // namespace trireme::ptx
