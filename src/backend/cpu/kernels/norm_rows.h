// One row of a norm: its statistics, the normalized row, and the row's gradient.
#pragma once

#include "backend/cpu/kernels/simd.h"
#include "backend/cpu/kernels/storage.h"

namespace trireme::cpu::TRIREME_ISA {

// Mean of (x - center)^2.
template <class T>
Acc<T> mean_square_of(const T* x, Acc<T> center, std::int64_t cols) {
  using A = Acc<T>;
  const auto centers = splat(center);
  return sum_terms<A>(cols,
                      [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
                        const auto d = load(x + i, n) - centers;
                        return d * d;
                      }) /
         static_cast<A>(cols);
}

// Factor of a normalized value: the weight, or 1 + weight.
template <bool zero_centered, class T, class Amount>
TRIREME_INLINE Vec<Acc<T>> factor_of(const T* weight, Amount n) {
  if constexpr (zero_centered) {
    return load(weight, n) + splat(Acc<T>{1});
  } else {
    return load(weight, n);
  }
}

template <bool zero_centered = false, class T>
void normalize(T* y, const T* x, const T* weight, const T* bias, Acc<T> mean, Acc<T> rstd,
               std::int64_t cols) {
  const auto means = splat(mean);
  const auto rstds = splat(rstd);
  for_vectors<lanes_of<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    auto out = (load(x + i, n) - means) * rstds * factor_of<zero_centered>(weight + i, n);
    if (bias) out += load(bias + i, n);
    store(y + i, out, n);
  });
}

template <class A>
TRIREME_INLINE A reciprocal_root(A x) {
  return A{1} / sqrt(splat(x)).part[0][0];
}

// Per-row values of the gradient, besides the row itself.
template <class A>
struct RowGrad {
  A mean, rstd;
  A grad_mean;       // mean of dy * weight; 0 for RMSNorm
  A grad_direction;  // mean of dy * weight * normalized x
};

template <bool zero_centered = false, class T>
RowGrad<Acc<T>> row_grad(bool centered, const T* dy, const T* x, const T* weight, Acc<T> mean,
                         Acc<T> rstd, std::int64_t cols) {
  using A = Acc<T>;
  Vec<A> sum = splat(A{0});
  Vec<A> dot = splat(A{0});
  for_vectors<lanes_of<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    const auto g =
        load(dy + i, n) * factor_of<zero_centered>(weight + i, n);  // 0 beyond the row's end
    sum += g;
    dot += g * (load(x + i, n) - splat(mean));
  });
  const A count = static_cast<A>(cols);
  return {mean, rstd, centered ? sum_lanes(sum) / count : A{0}, sum_lanes(dot) * rstd / count};
}

// Computes dx of one row; adds its part of the weight and bias gradients (which may be null).
template <bool zero_centered = false, class T>
void apply_row_grad(const RowGrad<Acc<T>>& row, T* dx, Acc<T>* dweight, Acc<T>* dbias, const T* dy,
                    const T* x, const T* weight, const T* dres, std::int64_t cols) {
  for_vectors<lanes_of<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    const auto grad = load(dy + i, n);
    const auto unit = (load(x + i, n) - splat(row.mean)) * splat(row.rstd);
    auto out = (grad * factor_of<zero_centered>(weight + i, n) - splat(row.grad_mean) -
                unit * splat(row.grad_direction)) *
               splat(row.rstd);
    if (dres) out += load(dres + i, n);
    store(dweight + i, load(dweight + i, n) + grad * unit, n);
    if (dbias) store(dbias + i, load(dbias + i, n) + grad, n);
    store(dx + i, out, n);
  });
}

}  // namespace trireme::cpu::TRIREME_ISA
