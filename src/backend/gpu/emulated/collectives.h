// A substitute for NCCL on the emulated GPU.
#pragma once

#include "backend/collectives.h"

namespace trireme::gpu::emulated {

// Each call is work of its stream: it reads its input from device memory, and the stream stalls
// until the other ranks have sent their parts through HostMessages, just as an NCCL kernel
// occupies its stream. Sums are accumulated along a ring with rounding at every rank, as in NCCL,
// so programs cannot rely on an order. An asynchronous error stalls the streams until the
// communicator is aborted.
const CollectiveTable& substitute_collectives();

}  // namespace trireme::gpu::emulated
