// Scratch sizes of the GPU kernels in bytes: pure functions of the shape, so
// that planning needs no GPU.
#pragma once

#include <cstdint>

#include "backend/kernels.h"
#include "backend/target.h"

namespace trireme::gpu {

// Workspace passed to the vendor's GEMM library per call. None allocates more by itself.
inline constexpr std::int64_t library_workspace = std::int64_t{32} << 20;
inline constexpr std::int64_t substitute_workspace = std::int64_t{64} << 10;  // on the emulated GPU

// `compute` is the storage type of activations. Includes the library's workspace even if the
// library turns out to be missing, which a plan cannot know.
std::int64_t linear_workspace(DeviceKind, DType compute, Product, const LinearShape&);
std::int64_t attention_workspace(DType compute, const AttentionShape&);
// What attention_grad() takes in addition where it makes the gradient of a bias.
std::int64_t attention_bias_workspace(const AttentionShape&);
std::int64_t cached_attention_workspace(const CachedAttentionShape&);
// Sizes of `sums` of ring_attention() and of the workspace of ring_attention_grad(): the sums over
// the steps so far, followed by the scratch of one step.
std::int64_t ring_attention_workspace(DType compute, const AttentionShape&);
std::int64_t ring_attention_grad_workspace(DType compute, const AttentionShape&);
// `sums`: see NormGradOperands.
std::int64_t norm_grad_workspace(std::int64_t rows, std::int64_t cols, int sums = 2);
std::int64_t bias_grad_workspace(std::int64_t rows, std::int64_t cols);
std::int64_t embedding_grad_workspace(std::int64_t rows, std::int64_t local_ids);
// For all choices of experts, in `blocks` equal blocks.
std::int64_t dispatch_workspace(std::int64_t choices, std::int64_t experts, std::int64_t blocks);

}  // namespace trireme::gpu
