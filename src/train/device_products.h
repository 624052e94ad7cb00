// Times only the products of a linear layer, on a device whose queues run asynchronously.
#pragma once

#include "backend/device.h"

namespace trireme {

// Seconds of one product of this shape, of random operands in device memory that take turns beyond
// what caches hold: the mean over three tenths of a second or more, after a warm-up. Throws Error
// where the device's memory does not hold the operands.
double product_seconds(Device& device, DType compute, Product product, const LinearShape& shape);

}  // namespace trireme
