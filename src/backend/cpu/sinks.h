// Attention sinks, compiled once for all instruction sets.
#pragma once

#include "backend/cpu/kernels.h"

namespace trireme::cpu {

// The same as the members of Kernels<T> with these names.
template <class T>
void attention_sink(const AttentionShape& s, T* ctx, Acc<T>* lse, const T* sinks);
template <class T>
void attention_sink_terms(const AttentionShape& s, Acc<T>* terms, const T* ctx, const Acc<T>* lse,
                          const T* dctx, const T* sinks);

}  // namespace trireme::cpu
