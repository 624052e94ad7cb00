// Scratch-size formulas.
#include "backend/gpu_workspace.h"

#include "backend/gpu/few_queries.h"
#include "backend/gpu/ring_scratch.h"
#include "backend/gpu/row_chunks.h"

namespace trireme::gpu {

std::int64_t linear_workspace(DeviceKind device, DType, Product, const LinearShape&) {
  return device == DeviceKind::emulated ? substitute_workspace : library_workspace;
}

// Holds the sum of ctx * dctx of every query and head, for the backward pass.
std::int64_t attention_workspace(DType, const AttentionShape& s) {
  return s.batch * s.heads() * s.seq * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t attention_bias_workspace(const AttentionShape& s) {
  return attention_grad_chunks(s.batch, s.seq) * s.qkv_cols() *
         static_cast<std::int64_t>(sizeof(float));
}

// Holds the partial results of blocks that split a query's keys.
std::int64_t cached_attention_workspace(const CachedAttentionShape& s) {
  if (!has_few_queries(s)) return 0;
  return s.batch * s.groups * s.queries_per_group * s.seq * splits_of(s) * part_size(s.head_dim) *
         static_cast<std::int64_t>(sizeof(float));
}

std::int64_t ring_attention_workspace(DType compute, const AttentionShape& s) {
  return RingScratch(s, size_of(compute), false).bytes;
}

std::int64_t ring_attention_grad_workspace(DType compute, const AttentionShape& s) {
  return RingScratch(s, size_of(compute), true).bytes;
}

// Holds partial sums of the weight and bias gradients.
std::int64_t norm_grad_workspace(std::int64_t rows, std::int64_t cols, int sums) {
  return sums * norm_grad_chunks(rows).count * cols * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t bias_grad_workspace(std::int64_t rows, std::int64_t cols) {
  return bias_grad_chunks(rows).count * cols * static_cast<std::int64_t>(sizeof(float));
}

// Holds the start of each id's rows, and the rows sorted by id.
std::int64_t embedding_grad_workspace(std::int64_t rows, std::int64_t local_ids) {
  return (local_ids + 1 + rows) * static_cast<std::int64_t>(sizeof(std::int32_t));
}

// Holds the number of choices per expert of each chunk.
std::int64_t dispatch_workspace(std::int64_t choices, std::int64_t experts, std::int64_t blocks) {
  return dispatch_chunks(choices, blocks).per_block * blocks * experts *
         static_cast<std::int64_t>(sizeof(std::int32_t));
}

}  // namespace trireme::gpu
