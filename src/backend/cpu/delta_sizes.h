// Scratch sizes of the gated delta rule, shared by kernels and planning.
#pragma once

#include <cstdint>

#include "backend/shapes.h"
#include "base/divide.h"

namespace trireme::cpu {
namespace {  // kernels of several instruction sets include this: nothing may be shared by the
             // linker

// Number of positions that are computed together. It decides the order of all sums.
constexpr std::int64_t delta_chunk = 64;
constexpr std::int64_t max_delta_dim = 256;  // of keys and of values

// Elements of the packed rows of one chunk, and of a state.
[[maybe_unused]] constexpr std::int64_t delta_key_cols(const DeltaRule& s) {
  return round_up(s.key_dim, 16);
}
[[maybe_unused]] constexpr std::int64_t delta_value_cols(const DeltaRule& s) {
  return round_up(s.value_dim, 16);
}
[[maybe_unused]] constexpr std::int64_t delta_state_elements(const DeltaRule& s) {
  return delta_key_cols(s) * delta_value_cols(s);
}

// Elements that the gradient of one group of a sequence keeps: for each chunk the state before it
// and its updates, and the gradients of normalized queries and keys of all positions.
[[maybe_unused]] constexpr std::int64_t delta_grad_elements(const DeltaRule& s) {
  const std::int64_t chunks = ceil_div(s.seq, delta_chunk);
  return chunks *
         (delta_state_elements(s) + delta_chunk * (delta_value_cols(s) + 2 * delta_key_cols(s)));
}

}  // namespace
}  // namespace trireme::cpu
