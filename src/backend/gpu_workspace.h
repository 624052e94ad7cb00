// Scratch that the GPU's kernels need, in bytes: pure functions of the shape, so that a plan needs
// no GPU.
#pragma once

#include <cstdint>

#include "backend/kernels.h"

namespace trireme::gpu {

// `compute` is the storage type of activations.
std::int64_t linear_workspace(DType compute, Product, const LinearShape&);
std::int64_t attention_workspace(DType compute, const AttentionShape&);
std::int64_t cached_attention_workspace(const CachedAttentionShape&);
std::int64_t norm_grad_workspace(std::int64_t rows, std::int64_t cols);
std::int64_t bias_grad_workspace(std::int64_t rows, std::int64_t cols);
std::int64_t embedding_grad_workspace(std::int64_t rows, std::int64_t local_ids);

}  // namespace trireme::gpu
