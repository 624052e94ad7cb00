// FP8 products of linear layers (Graph::fp8): both operands are quantized into scratch, stored as
// numbers of the arithmetic type, and multiplied there, so that the summands equal those of an FP8
// matrix unit.
#pragma once

#include "graph/ops/fp8_operands.h"

namespace trireme::ops {

// Scratch bytes of a product with `shape` per call, without the gradient of one block.
std::int64_t fp8_workspace(const Target&, const Graph&, const Node&, Product,
                           const LinearShape& shape);
// Prepares the data of launch_fp8().
std::shared_ptr<const void> prepare_fp8(Device&, const Graph&, const Node&, Product,
                                        const LinearShape& shape);
void launch_fp8(const Launch&, Product);

}  // namespace trireme::ops
