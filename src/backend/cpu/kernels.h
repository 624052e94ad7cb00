// The CPU's kernels: they run synchronously on the global thread pool, and their results do not
// depend on the number of threads.
#pragma once

#include <cstdint>

#include "backend/kernels.h"
#include "backend/target.h"

namespace trireme::cpu {

// Files of kernels/ that set table entries, each in a function set_<name>.
// clang-format off
#define TRIREME_KERNEL_FILES(X) \
  X(norm) X(head_norm) X(activation) X(elementwise) X(rope) X(embedding) X(cross_entropy) \
  X(reduce) X(optimizer) X(matrix) X(experts) \
  X(short_conv) X(delta_rule) X(gate_heads)
// clang-format on

// Workspaces in elements; functions of the shape only. `sums`: see NormGradOperands.
std::int64_t norm_grad_workspace(std::int64_t rows, std::int64_t cols, int sums = 2);
std::int64_t bias_grad_workspace(std::int64_t rows, std::int64_t cols);
std::int64_t embedding_grad_workspace(std::int64_t rows, std::int64_t local_ids);

// The instruction set in use: the best that the processor has, or TRIREME_ISA=avx2|avx512|amx (an
// error with exit code 2 if the processor lacks it or the name is unknown).
Isa isa();

// Kernel table of that instruction set.
template <class T>
const Kernels<T>& kernels();
// Kernel table of a given set, which the processor must support: for tests that compare sets.
template <class T>
const Kernels<T>& kernels(Isa isa);

}  // namespace trireme::cpu
