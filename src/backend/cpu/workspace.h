// Scratch sizes of the CPU kernels in bytes: pure functions of the shape and the target, so that
// plans for another machine are right.
#pragma once

#include <cstdint>

#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"
#include "backend/target.h"

namespace trireme::cpu {

// `compute` is the storage type of activations.
std::int64_t linear_workspace(const Target&, DType compute, Product, const LinearShape&);
// Scratch of make_sums().
std::int64_t sums_workspace(const Target&, DType compute, Product, const LinearShape&);
std::int64_t grouped_workspace(const Target&, DType compute, Product, const GroupedShape&);
std::int64_t attention_workspace(const Target&, DType compute, const AttentionShape&);
// Scratch of delta_rule and, with `grad`, of delta_rule_grad.
std::int64_t delta_workspace(const Target&, DType compute, const DeltaShape&, bool grad);
// Scratch of context_attention_grad.
std::int64_t context_attention_workspace(const Target&, DType compute, const AttentionShape&);

}  // namespace trireme::cpu
