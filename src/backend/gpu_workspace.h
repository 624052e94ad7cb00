// Scratch that the GPU's kernels need, in bytes: pure functions of the shape, so that a plan needs
// no GPU.
#pragma once

#include <cstdint>

#include "backend/kernels.h"
#include "backend/target.h"

namespace trireme::gpu {

// What a vendor's library of matrix products gets for a call. None takes more of its own.
inline constexpr std::int64_t library_workspace = std::int64_t{32} << 20;
inline constexpr std::int64_t substitute_workspace = std::int64_t{64} << 10;  // on the emulated GPU

// `compute` is the storage type of activations. Also where the library turns out to be missing: a
// plan cannot know.
std::int64_t linear_workspace(DeviceKind, DType compute, Product, const LinearShape&);
std::int64_t attention_workspace(DType compute, const AttentionShape&);
std::int64_t cached_attention_workspace(const CachedAttentionShape&);
// What `sums` of ring_attention() and the workspace of ring_attention_grad() point to: the sums of
// the turns so far, and behind them what a turn makes.
std::int64_t ring_attention_workspace(DType compute, const AttentionShape&);
std::int64_t ring_attention_grad_workspace(DType compute, const AttentionShape&);
std::int64_t norm_grad_workspace(std::int64_t rows, std::int64_t cols);
std::int64_t bias_grad_workspace(std::int64_t rows, std::int64_t cols);
std::int64_t embedding_grad_workspace(std::int64_t rows, std::int64_t local_ids);
// Of all choices of experts, in `blocks` equal blocks.
std::int64_t dispatch_workspace(std::int64_t choices, std::int64_t experts, std::int64_t blocks);

}  // namespace trireme::gpu
