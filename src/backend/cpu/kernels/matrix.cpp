// Steps of Newton-Schulz iterations between their products: scaling a matrix to norm 1, adding
// multiples of two matrices, and converting the result to the shape and type of the update.
#include "backend/cpu/kernels/parallel.h"
#include "backend/cpu/kernels/simd.h"
#include "backend/cpu/kernels/table.h"
#include "base/exact_sum.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr std::int64_t tile = 32;

// to[r][c] (or, transposed, to[c][r]) = convert(from[r][c]), from [rows, cols].
template <class To, class From, class Convert>
void map_matrix(To* to, const From* from, std::int64_t rows, std::int64_t cols, bool transpose,
                const Convert& convert) {
  const std::int64_t bands = (rows + tile - 1) / tile;
  const double band_ns = static_cast<double>(tile * cols * (sizeof(To) + sizeof(From))) * byte_ns;
  parallel_pieces(bands, band_ns, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t last_row = end * tile < rows ? end * tile : rows;
    if (!transpose) {
      for (std::int64_t i = begin * tile * cols; i < last_row * cols; ++i) to[i] = convert(from[i]);
      return;
    }
    for (std::int64_t row = begin * tile; row < last_row; row += tile) {
      const std::int64_t row_end = row + tile < last_row ? row + tile : last_row;
      for (std::int64_t col = 0; col < cols; col += tile) {
        const std::int64_t col_end = col + tile < cols ? col + tile : cols;
        for (std::int64_t c = col; c < col_end; ++c)
          for (std::int64_t r = row; r < row_end; ++r)
            to[c * rows + r] = convert(from[r * cols + c]);
      }
    }
  });
}

template <class T>
void normalize_matrix(T* y, const Acc<T>* x, const ExactSum* squares, std::int64_t rows,
                      std::int64_t cols, bool transpose) {
  using A = Acc<T>;
  const A norm = static_cast<A>(__builtin_sqrt(squares->value()) + 1e-7);
  map_matrix(y, x, rows, cols, transpose, [=](A value) { return static_cast<T>(value / norm); });
}

template <class T>
void scale_matrix(Acc<T>* y, const T* x, double factor, std::int64_t rows, std::int64_t cols,
                  bool transpose) {
  using A = Acc<T>;
  const A by = static_cast<A>(factor);
  const auto scaled = [=](T value) { return by * static_cast<A>(value); };
  if (transpose) return map_matrix(y, x, cols, rows, true, scaled);
  map_matrix(y, x, rows, cols, false, scaled);
}

template <class T>
void combine(T* y, double a, const T* x, double b, std::int64_t count) {
  using A = Acc<T>;
  const auto of_y = splat(static_cast<A>(a)), of_x = splat(static_cast<A>(b));
  parallel_pieces(
      count, 3 * sizeof(T) * byte_ns,
      [&](std::int64_t begin, std::int64_t end) {
        for_vectors<lanes_of<T>>(end - begin, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
          store(y + begin + i, of_y * load(y + begin + i, n) + of_x * load(x + begin + i, n), n);
        });
      },
      lanes_of<T>);
}

}  // namespace

template <class T>
void set_matrix(Kernels<T>& table) {
  table.normalize_matrix = at_once<normalize_matrix<T>>;
  table.scale_matrix = at_once<scale_matrix<T>>;
  table.combine = at_once<combine<T>>;
}
TRIREME_INSTANTIATE(set_matrix)

}  // namespace trireme::cpu::TRIREME_ISA
