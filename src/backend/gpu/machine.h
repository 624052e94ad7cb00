// What there is to know of GPU and driver beyond what queues need (runtime.h).
#pragma once

#include <cstdint>
#include <string>

#include "base/kinds.h"

namespace trireme::gpu::runtime {

// Whose GPUs the plug-in is for: sizes of scratch follow from it.
DeviceKind kind();

// Puts what the driver and its libraries read into the environment, before any other call.
void prepare();

// Of the selected one, not used by any process.
std::int64_t free_bytes();

// What its matrix units reach in bf16 at most, in flops per second; 0 where that is not known.
double matrix_rate(int device);
double matrix_rate();
// From here on a missing library of matrix products is a fault: the own kernel reaches a third to a
// half of what the vendor's does on an H100.
inline constexpr double large_matrix_rate = 1e14;

// Why the selected one cannot run this build's kernels, of which `kernel` is one; empty if it can.
std::string why_no_kernel(const void* kernel);

}  // namespace trireme::gpu::runtime
