// What ptxas may make of a product and a sum that name no rounding: one fused operation.
#pragma once

#include "backend/gpu/ptx/text.h"

namespace trireme::ptx {

// Turns "mul.f32 x, a, b; add.f32 d, x, c" within a piece of straight code into a fused product
// and sum, everywhere; the product stays for others. Gives how many there were.
int contract(KernelText& kernel);

}  // namespace trireme::ptx
