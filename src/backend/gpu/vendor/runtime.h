// The types of runtime.h for CUDA and HIP, and the way their functions are called: every CUDA
// function used here has a HIP counterpart with another prefix.
#pragma once

#include <cstddef>

#include "backend/gpu/which.h"

#if TRIREME_HIP
#include <hip/hip_runtime_api.h>
#define GPU_API(name) hip##name
#else
#include <cuda_runtime_api.h>
#define GPU_API(name) cuda##name
#endif

namespace trireme::gpu::runtime {

using Stream = GPU_API(Stream_t);
using Event = GPU_API(Event_t);

// Throws an error that names the call, if it failed.
void check(GPU_API(Error_t) code, const char* call);
// Makes the selected device, if any, current in this thread: threads start with device 0.
void use_selected();
#define GPU_CALL(name, ...)                 \
  (::trireme::gpu::runtime::use_selected(), \
   ::trireme::gpu::runtime::check(GPU_API(name)(__VA_ARGS__), TRIREME_GPU_TEXT(GPU_API(name))))
#define TRIREME_GPU_TEXT(x) TRIREME_GPU_TEXT_OF(x)
#define TRIREME_GPU_TEXT_OF(x) #x

// Lanes of a wave of the selected device.
int wave_width_of_device();

// Launches a kernel; `arguments` points to each of the arguments, which are copied.
void launch(const void* kernel, dim3 blocks, unsigned threads, void** arguments,
            std::size_t shared_bytes, Stream);

}  // namespace trireme::gpu::runtime
