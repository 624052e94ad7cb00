// Entry points of the attention kernels for one instruction set; kernels.h documents them.
#pragma once

#include "backend/cpu/kernels/storage_types.h"

namespace trireme::cpu::TRIREME_ISA {

// head_dim is at most 256. A query that sees no key (all of its keys are padding) gets ctx 0, lse
// -infinity and no gradient.
template <class T>
void attention(const AttentionShape&, T* ctx, Acc<T>* lse, const T* qkv, void* workspace);

template <class T>
void attention_grad(const AttentionShape&, const AttentionGradOperands<T>&);

template <class T>
void context_attention(const AttentionShape&, T* ctx, Acc<T>* lse, const T* qkv, const T* kv);

template <class T>
void attention_delta(const AttentionShape&, Acc<T>* delta, const T* ctx, const T* dctx);

template <class T>
void context_attention_grad(const AttentionShape&, T* dqkv, const T* qkv, const T* dctx,
                            const Acc<T>* lse, const Acc<T>* delta, void* workspace);

template <class T>
void ring_attention(const AttentionShape&, const SequenceCut& keys, bool first, T* ctx,
                    Acc<T>* sums, Acc<T>* lse, const T* qkv, const T* kv);

template <class T>
void ring_attention_grad(const AttentionShape&, const SequenceCut& keys, bool first, T* dqkv,
                         Acc<T>* dkv, const T* qkv, const T* kv, const T* dctx, const Acc<T>* lse,
                         const Acc<T>* delta, void* workspace);

template <class T>
void ring_key_grads(const AttentionShape&, T* dqkv, const Acc<T>* own, const Acc<T>* arrived);

template <class T>
void cached_attention(const CachedAttentionShape&, T* ctx, Acc<T>* lse, const T* qkv, T* key_cache,
                      T* value_cache, const std::int32_t* lengths, Acc<T>* workspace);

}  // namespace trireme::cpu::TRIREME_ISA
