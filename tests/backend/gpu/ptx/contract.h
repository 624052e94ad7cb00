// Contraction that ptxas may apply to a product and a sum without explicit rounding.
#pragma once

#include "backend/gpu/ptx/text.h"

namespace trireme::ptx {

// Turns every "mul.f32 x, a, b; add.f32 d, x, c" within a basic block into a fused multiply-add;
// the product is kept for other uses. Returns the number of fusions.
int contract(KernelText& kernel);

}  // namespace trireme::ptx
