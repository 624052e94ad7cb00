// Stands for all kernels where a device is asked whether it can run this build's.
#pragma once

namespace trireme::gpu {

const void* any_kernel();

}  // namespace trireme::gpu
