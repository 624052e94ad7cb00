// Products of linear layers in fp8 (Graph::fp8): both operands are rounded into scratch, as numbers
// in the type of arithmetic, and multiplied there, so that what is added up is what a matrix unit
// would add up.
#pragma once

#include "graph/ops/fp8_operands.h"

namespace trireme::ops {

// Scratch of a product with `shape` for each call; without that of a block's gradient.
std::int64_t fp8_workspace(const Target&, const Graph&, const Node&, Product,
                           const LinearShape& shape);
// Prepares the data of launch_fp8().
std::shared_ptr<const void> prepare_fp8(Device&, const Graph&, const Node&, Product,
                                        const LinearShape& shape);
void launch_fp8(const Launch&, Product);

}  // namespace trireme::ops
