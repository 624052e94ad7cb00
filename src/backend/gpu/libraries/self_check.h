// Compares two implementations of linear-layer products on one device.
#pragma once

#include <vector>

#include "backend/gpu/libraries/products.h"

namespace trireme::gpu {

// A class of products whose results differ by more than rounding explains. Errors are relative to
// the largest element; NaN counts as a difference.
struct Disagreement {
  ProductClass of;
  double error, allowed;
  std::string failure;  // of a call that produced no result
};

// Runs the three products in each GPU storage type on one small shape, with and without bias and
// accumulation. Allocates some device memory while it runs.
std::vector<Disagreement> disagreements(Device& device, const MakeProduct& tested,
                                        const MakeProduct& trusted);

}  // namespace trireme::gpu
