// Compares two ways to compute the products of linear layers on one device.
#pragma once

#include <vector>

#include "backend/gpu/libraries/products.h"

namespace trireme::gpu {

// A class of products whose results differ by more than rounding explains. Both are shares of the
// largest element; NaN counts as a difference.
struct Disagreement {
  ProductClass of;
  double error, allowed;
  std::string failure;  // of a call, where there is no result
};

// Runs each of the three products in each storage type of GPUs, on one small shape, with and
// without bias and sum. Takes some memory of the device for as long as it runs.
std::vector<Disagreement> disagreements(Device& device, const MakeProduct& tested,
                                        const MakeProduct& trusted);

}  // namespace trireme::gpu
