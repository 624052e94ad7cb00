// FP8 products of linear layers (Graph::fp8): both operands are quantized into scratch, stored as
// numbers of the arithmetic type, and multiplied there, so that the summands equal those of an FP8
// matrix unit.
#pragma once

#include "graph/ops/fp8_operands.h"

namespace trireme::ops {

// Whether a linear layer's products read operands rounded to fp8.
bool rounds_to_fp8(const Graph&, const Node&);

// Operands of one product of a linear layer, in the order of the node.
Fp8Operands fp8_operands(DeviceKind, const Graph&, const Node&, Product);
// Rounds both, with scales that all ranks with parts of the same matrices share.
template <class T>
Fp8Rounded<T> round_operands(const Launch&, const Fp8Operands&, std::byte* scratch);

// Scratch bytes of a product with `shape` per call, without the gradient of one block.
std::int64_t fp8_workspace(const Target&, const Graph&, const Node&, Product,
                           const LinearShape& shape);
// Prepares the data of launch_fp8().
std::shared_ptr<const void> prepare_fp8(Device&, const Graph&, const Node&, Product,
                                        const LinearShape& shape);
void launch_fp8(const Launch&, Product);

}  // namespace trireme::ops
