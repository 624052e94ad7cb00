// The CPU as a device: queues run everything immediately, and its memory is the host's.
#pragma once

#include "backend/device.h"

namespace trireme::cpu {

// The processor that this program runs on, with the instruction set in use.
Device& device();
// The queue of all kernels, for those that call them directly.
Queue& queue();

const StateKernels& state_kernels();

}  // namespace trireme::cpu
