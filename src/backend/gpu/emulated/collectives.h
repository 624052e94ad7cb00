// A substitute for NCCL on the emulated GPU.
#pragma once

#include "backend/collectives.h"

namespace trireme::gpu::emulated {

// Each call is work of its stream: it takes what it sends out of device memory, and the stream
// stands still until the other ranks have sent their part by way of HostMessages, as a kernel of
// NCCL keeps its stream. Sums are added along a ring and rounded at every rank, as NCCL's are, so
// their order is none that a program may rely on. An error in the background stops the streams
// until the communicator is aborted.
const CollectiveTable& substitute_collectives();

}  // namespace trireme::gpu::emulated
