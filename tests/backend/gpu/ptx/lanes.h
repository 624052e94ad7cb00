// Applies operations on values to all lanes of a warp.
#pragma once

#include <cstring>
#include <utility>

#include "backend/gpu/ptx/machine.h"

namespace trireme::ptx {

// d[l] = f(l) for active lanes; f runs for all lanes, so it must tolerate inactive lanes' values.
template <class D, class F>
inline void set(Warp& w, std::uint32_t at, const F& f) {
  D* const d = w.slot<D>(at);
  D result[lanes];
#pragma GCC ivdep
  for (int l = 0; l < lanes; ++l) result[l] = f(l);
  if (w.active == all_lanes) {
    std::memcpy(d, result, sizeof result);
  } else {
    for (int l = 0; l < lanes; ++l)
      if (has(w.active, l)) d[l] = result[l];
  }
}

inline void set_predicate(Warp& w, std::uint32_t at, Mask value) {
  Mask* const p = w.slot<Mask>(at);
  *p = (*p & ~w.active) | (value & w.active);
}

// Sets bit l to f(l).
template <class F>
inline Mask mask_of(const F& f) {
  std::uint8_t bytes[lanes];
#pragma GCC ivdep
  for (int l = 0; l < lanes; ++l) bytes[l] = f(l) ? 1 : 0;
  Mask mask = 0;
  for (int l = 0; l < lanes; ++l) mask |= Mask{bytes[l]} << l;
  return mask;
}

template <class F, class D, class... S, std::size_t... k>
inline void apply_to(Warp& w, const Instruction& i, std::index_sequence<k...>) {
  set<D>(w, i.at[0], [&](int l) { return static_cast<D>(F::of(w.slot<S>(i.at[1 + k])[l]...)); });
}
// at[0] = F::of(at[1], at[2] ...)
template <class F, class D, class... S>
void apply(Warp& w, const Instruction& i) {
  apply_to<F, D, S...>(w, i, std::index_sequence_for<S...>{});
}

// Calls body(l) for the active lanes, in ascending order.
template <class Body>
inline void for_active(const Warp& w, const Body& body) {
  for (Mask rest = w.active; rest != 0; rest &= rest - 1) body(__builtin_ctz(rest));
}

}  // namespace trireme::ptx
