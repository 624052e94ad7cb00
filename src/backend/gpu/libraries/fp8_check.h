// Compares a library's fp8 products with sums computed on the host.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/gpu/libraries/self_check.h"

namespace trireme::gpu {

using MakeFp8Product =
    std::function<std::shared_ptr<const Fp8Product>(const ProductClass&, const LinearShape&)>;

// Runs the three products in every supported combination of fp8 types, result types and
// scalings on one small shape, with and without bias and accumulation. Allocates some
// device memory while it runs.
std::vector<Disagreement> fp8_disagreements(Device& device, const MakeFp8Product& tested);

}  // namespace trireme::gpu
