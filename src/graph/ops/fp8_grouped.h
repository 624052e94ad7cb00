// Products of experts as a graph asks for them: plain, or in fp8, where each expert's weight and
// its rows are rounded as matrices of their own.
#pragma once

#include "graph/ops/support.h"

namespace trireme::ops {

std::shared_ptr<const GroupedProduct> make_grouped(Device&, const Graph&, Product,
                                                   const GroupedShape&);
// Its scratch for each call.
std::int64_t grouped_workspace(const Target&, const Graph&, Product, const GroupedShape&);

}  // namespace trireme::ops
