// LayerNorm and RMSNorm, fused with the preceding residual addition, and their gradients.
#include "backend/cpu/kernels/combine_chunks.h"
#include "backend/cpu/kernels/norm_rows.h"
#include "backend/cpu/kernels/parallel.h"
#include "backend/cpu/kernels/residual.h"
#include "backend/cpu/kernels/table.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
Acc<T> mean_of(const T* x, std::int64_t cols) {
  using A = Acc<T>;
  return sum_terms<A>(
             cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA { return load(x + i, n); }) /
         static_cast<A>(cols);
}

template <bool zero_centered, class T>
void norm_rows(const NormShape& shape, T* y, Acc<T>* mean, Acc<T>* rstd, const T* x,
               const T* weight, const T* bias, T* sum, const T* delta, const Dropout& dropout) {
  using A = Acc<T>;
  const std::int64_t cols = shape.cols;
  const bool centered = shape.kind == NormKind::layer_norm;
  const bool dropped = delta && is_active(dropout);
  const double row_ns = (delta ? 4 : 2) * sizeof(T) * byte_ns * static_cast<double>(cols);
  parallel_pieces(shape.rows, row_ns, [&](std::int64_t begin, std::int64_t end) {
    HiddenDropout<A> mask(dropout);
    for (std::int64_t r = begin; r < end; ++r) {
      const T* row = x + r * cols;
      if (delta) {
        T* to = sum + r * cols;
        if (dropped) {
          mask.set_row(r);
          add_dropped_row(to, row, delta + r * cols, mask, cols);
        } else {
          add_plain(to, row, delta + r * cols, cols);
        }
        row = to;
      }
      const A center = centered ? mean_of(row, cols) : A{0};
      const A variance = mean_square_of(row, center, cols);
      const A scale = reciprocal_root(variance + static_cast<A>(shape.eps));
      if (mean) mean[r] = center;
      if (rstd) rstd[r] = scale;
      normalize<zero_centered>(y + r * cols, row, weight, bias, center, scale, cols);
    }
  });
}

template <class T>
void norm(const NormShape& shape, T* y, Acc<T>* mean, Acc<T>* rstd, const T* x, const T* weight,
          const T* bias, T* sum, const T* delta, const Dropout& dropout) {
  const auto run = shape.zero_centered ? norm_rows<true, T> : norm_rows<false, T>;
  run(shape, y, mean, rstd, x, weight, bias, sum, delta, dropout);
}

template <bool zero_centered, class T>
void norm_rows_grad(const NormShape& shape, const NormGradOperands<T>& o) {
  using A = Acc<T>;
  const std::int64_t cols = shape.cols;
  const bool centered = shape.kind == NormKind::layer_norm;
  const std::int64_t chunk = rows_per_chunk(shape.rows);
  const std::int64_t chunks = row_chunks(shape.rows);
  // Sums over rows: one part per chunk of each that is wanted.
  enum Sum { weight_sum, bias_sum, dx_sum, dres_sum, kinds };
  A* const wanted[kinds] = {o.dweight, o.dbias, o.dx_sum, o.dres_sum};
  A* parts[kinds] = {};
  A* next = o.workspace;
  for (int kind = 0; kind < kinds; ++kind) {
    if (!wanted[kind]) continue;
    parts[kind] = next;
    next += chunks * cols;
  }
  const double row_ns = 4 * sizeof(T) * byte_ns * static_cast<double>(cols);
  parallel_chunks(
      shape.rows, chunk, row_ns, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
        A* sums[kinds] = {};
        for (int kind = 0; kind < kinds; ++kind) {
          if (!parts[kind]) continue;
          sums[kind] = parts[kind] + part * cols;
          __builtin_memset(sums[kind], 0, cols * sizeof(A));
        }
        for (std::int64_t r = begin; r < end; ++r) {
          const std::int64_t at = r * cols;
          const auto row = row_grad<zero_centered>(centered, o.dy + at, o.x + at, o.weight,
                                                   centered ? o.mean[r] : A{0}, o.rstd[r], cols);
          if (sums[dres_sum])
            add_row(sums[dres_sum], o.dres + at, cols);  // before dx overwrites it
          apply_row_grad<zero_centered>(row, o.dx + at, sums[weight_sum], sums[bias_sum], o.dy + at,
                                        o.x + at, o.weight, o.dres ? o.dres + at : nullptr, cols);
          if (sums[dx_sum]) add_row(sums[dx_sum], o.dx + at, cols);
        }
      });
  for (int kind = 0; kind < kinds; ++kind)
    if (wanted[kind]) combine_chunks(wanted[kind], o.accumulate, parts[kind], chunks, cols);
}

template <class T>
void norm_grad(const NormShape& shape, const NormGradOperands<T>& o) {
  const auto run = shape.zero_centered ? norm_rows_grad<true, T> : norm_rows_grad<false, T>;
  run(shape, o);
}

}  // namespace

template <class T>
void set_norm(Kernels<T>& table) {
  table.norm = at_once<norm<T>>;
  table.norm_grad = at_once<norm_grad<T>>;
}
TRIREME_INSTANTIATE(set_norm)

}  // namespace trireme::cpu::TRIREME_ISA
