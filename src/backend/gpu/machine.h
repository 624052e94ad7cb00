// Queries of the GPU and its driver that queues do not need (see runtime.h).
#pragma once

#include <cstdint>
#include <string>

#include "base/kinds.h"

namespace trireme::gpu::runtime {

// Vendor of the plug-in's GPUs; scratch sizes depend on it.
DeviceKind kind();

// Sets the environment of the driver and its libraries; call before anything else.
void prepare();

// Free memory of the selected GPU in bytes.
std::int64_t free_bytes();

// Peak bf16 rate of the matrix units in flops per second; 0 if unknown.
double matrix_rate(int device);
double matrix_rate();
// From this rate on, a missing vendor GEMM library counts as a fault: our kernel reaches a third to
// a half of the library's rate on an H100.
inline constexpr double large_matrix_rate = 1e14;

// Reason why the selected GPU cannot run this build's kernels (tried: `kernel`); empty if it can.
std::string why_no_kernel(const void* kernel);

}  // namespace trireme::gpu::runtime
