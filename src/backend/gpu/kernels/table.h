// Fills a GPU's kernel tables: each file of this folder sets the entries of its kernels.
#pragma once

#include "backend/kernels.h"
#include "backend/state_kernels.h"

namespace trireme::gpu {

// Files of kernels/ that set table entries, each in a function set_<name>.
// clang-format off
#define TRIREME_GPU_KERNEL_FILES(X)                                                           \
  X(elementwise) X(norm) X(norm_grad) X(head_norm) X(activation) X(rope) X(embedding) X(embedding_grad)    \
  X(cross_entropy) X(rows) X(bias_grad) X(optimizer) X(totals) X(attention) X(attention_grad) \
  X(cached_attention) X(sinks) X(group_bias) X(router) X(experts) X(routing) X(choice_counts) X(dispatch) X(matrix) \
  X(fp8)
// clang-format on

#define TRIREME_SETTER(name) \
  template <class T>         \
  void set_##name(Kernels<T>& table);
TRIREME_GPU_KERNEL_FILES(TRIREME_SETTER)
#undef TRIREME_SETTER

template <class T>
const Kernels<T>& kernels();
const StateKernels& state_kernels();

}  // namespace trireme::gpu

// Instantiates one of these functions for each storage type of GPUs.
// NOLINTBEGIN(bugprone-macro-parentheses): the name of a template cannot be parenthesised.
#define TRIREME_GPU_INSTANTIATE(setter)         \
  template void setter<float>(Kernels<float>&); \
  template void setter<bf16>(Kernels<bf16>&);   \
  template void setter<f16>(Kernels<f16>&)
// NOLINTEND(bugprone-macro-parentheses)
