// Products of linear layers in fp8 whose operands are bytes, where a library of the device
// multiplies them: how rows are distributed over its calls, and where bytes and scales lie in
// scratch.
#pragma once

#include "graph/ops/fp8_operands.h"

namespace trireme::ops {

// Prepared multiplication of a product's operands.
struct Fp8Prepared {
  std::shared_ptr<const LinearProduct> own;   // numbers
  std::shared_ptr<const Fp8Product> library;  // bytes; null: none does
};

std::shared_ptr<const Fp8Prepared> prepare_fp8(Device&, const Graph&, Product,
                                               const LinearShape& shape, const Fp8Operands&);

// Scratch but for the library's own, with the largest magnitudes at its begin; 0 where the units of
// scales are none that a library knows.
std::int64_t fp8_bytes_scratch(const Graph&, Product, const Fp8Operands&);

// `largest` as Fp8Operands has it; `gradient`: room for that of one block.
template <class T>
void launch_fp8_bytes(const Launch&, Product, const Fp8Operands&, const Fp8Product&, const T* bias,
                      std::byte* gradient, std::byte* scratch);

}  // namespace trireme::ops
