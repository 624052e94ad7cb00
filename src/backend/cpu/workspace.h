// Scratch that the CPU's kernels need, in bytes: pure functions of the shape and the target, so
// that a plan for another machine is right.
#pragma once

#include <cstdint>

#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"
#include "backend/target.h"

namespace trireme::cpu {

// `compute` is the storage type of activations.
std::int64_t linear_workspace(const Target&, DType compute, Product, const LinearShape&);
// The same for make_sums().
std::int64_t sums_workspace(const Target&, DType compute, Product, const LinearShape&);
std::int64_t grouped_workspace(const Target&, DType compute, Product, const GroupedShape&);
std::int64_t attention_workspace(const Target&, DType compute, const AttentionShape&);
// Of context_attention_grad.
std::int64_t context_attention_workspace(const Target&, DType compute, const AttentionShape&);

}  // namespace trireme::cpu
