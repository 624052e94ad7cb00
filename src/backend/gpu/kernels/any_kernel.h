// A representative kernel, used to ask a device whether it can run this build's kernels.
#pragma once

namespace trireme::gpu {

const void* any_kernel();

}  // namespace trireme::gpu
