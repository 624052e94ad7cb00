// The kernels of the program: which PTX belongs to the host's function, and what a launch of it is.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace trireme::ptx {

// Packs the arguments now and gives the work that runs the kernel. Throws std::runtime_error for
// PTX that is not understood, Refused for sizes that a processor of sm_80 does not take.
std::function<void()> prepare_launch(const void* function, dim3 grid, dim3 threads,
                                     void** arguments, std::size_t dynamic_shared_bytes);

// Lets a kernel use more than 48 KiB of shared memory. False if no processor of sm_80 has so much.
bool allow_shared_bytes(const void* function, int bytes);
bool is_kernel(const void* function);
// What a kernel declares.
std::size_t static_shared_bytes(const void* function);

struct Refused {
  cudaError_t code;
};

}  // namespace trireme::ptx
