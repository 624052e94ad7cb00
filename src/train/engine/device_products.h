// Benchmark of a linear layer's products alone, on a device with asynchronous queues.
#pragma once

#include "backend/device.h"

namespace trireme {

// Seconds of one product of this shape on random operands in device memory, rotated so that caches
// do not hold them: the mean over at least 0.3 seconds, after a warm-up. Throws Error if the
// operands do not fit into device memory.
double product_seconds(Device& device, DType compute, Product product, const LinearShape& shape);

}  // namespace trireme
