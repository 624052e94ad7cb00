// Compares what a library makes of bytes in fp8 with sums on the host.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/gpu/libraries/self_check.h"

namespace trireme::gpu {

using MakeFp8Product =
    std::function<std::shared_ptr<const Fp8Product>(const ProductClass&, const LinearShape&)>;

// Runs each of the three products with all types of bytes and results and all scales that it has,
// on one small shape, with and without bias and sum. Takes some memory of the device for as long as
// it runs.
std::vector<Disagreement> fp8_disagreements(Device& device, const MakeFp8Product& tested);

}  // namespace trireme::gpu
