// FP8 products of linear layers on operands stored as bytes, where a device library multiplies
// them: how rows are split over the library's calls, and the layout of bytes and scales in scratch
// memory.
#pragma once

#include "graph/ops/fp8_operands.h"

namespace trireme::ops {

// Prepared multiplication of the operands of one product.
struct Fp8Prepared {
  std::shared_ptr<const LinearProduct> own;   // numbers
  std::shared_ptr<const Fp8Product> library;  // bytes; null: no library supports it
};

std::shared_ptr<const Fp8Prepared> prepare_fp8(Device&, const Graph&, Product,
                                               const LinearShape& shape, const Fp8Operands&);

// Scratch size without the library's own workspace; the absolute maxima come first. 0 if no library
// supports these scale blocks.
std::int64_t fp8_bytes_scratch(const Graph&, Product, const Fp8Operands&);

// `largest` as in Fp8Operands; `gradient` has room for the gradient of one block.
template <class T>
void launch_fp8_bytes(const Launch&, Product, const Fp8Operands&, const Fp8Product&, const T* bias,
                      std::byte* gradient, std::byte* scratch);

}  // namespace trireme::ops
