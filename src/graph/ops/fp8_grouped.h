// Grouped products of experts as a graph requests them: unquantized, or in FP8, where each expert's
// weight and rows are quantized as separate matrices.
#pragma once

#include "graph/ops/support.h"

namespace trireme::ops {

std::shared_ptr<const GroupedProduct> make_grouped(Device&, const Graph&, Product,
                                                   const GroupedShape&);
// Scratch bytes that each call needs.
std::int64_t grouped_workspace(const Target&, const Graph&, Product, const GroupedShape&);

}  // namespace trireme::ops
