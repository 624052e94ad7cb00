// Steps of Newton-Schulz iterations between their products: scaling a matrix to norm 1, adding
// multiples of two matrices, and converting the result to the shape and type of the update.
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/exact_terms.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

// A block copies a square of a matrix through shared memory, so that both
// matrices are accessed by rows.
constexpr int side = 32, lines = 8;

struct Square {
  float of[side][side + 1];
};

// to[r][c] (or, transposed, to[c][r]) = convert(from[r][c]), from [rows, cols].
template <class To, class From, class Convert>
GPU_FN void map_square(To* to, const From* from, std::int64_t rows, std::int64_t cols,
                       bool transpose, const Convert& convert) {
  const auto thread = static_cast<int>(thread_index());
  const int x = thread % side, y = thread / side;
  const std::int64_t first_row = std::int64_t{block_index().y} * side;
  const std::int64_t first_column = std::int64_t{block_index().x} * side;
  auto& square = shared_memory<Square>();
  for (int line = y; line < side; line += lines) {
    const std::int64_t r = first_row + line, c = first_column + x;
    if (r >= rows || c >= cols) continue;
    const float value = convert(to_float(from[r * cols + c]));
    if (transpose)
      square.of[line][x] = value;
    else
      to[r * cols + c] = from_float<To>(value);
  }
  if (!transpose) return;
  sync_block();
  for (int line = y; line < side; line += lines) {
    const std::int64_t c = first_column + line, r = first_row + x;
    if (r < rows && c < cols) to[c * rows + r] = from_float<To>(square.of[x][line]);
  }
}

Launch over_squares(std::int64_t rows, std::int64_t cols) {
  return {.blocks = Size{static_cast<unsigned>((cols + side - 1) / side),
                         static_cast<unsigned>((rows + side - 1) / side)},
          .threads = side * lines};
}

template <class T>
GPU_KERNEL(side* lines)
normalize_matrix_kernel(T* y, const float* x, const std::int64_t* squares, std::int64_t rows,
                        std::int64_t cols, bool transpose) {
  const auto norm = static_cast<float>(sqrt(value_of(squares)) + 1e-7);
  map_square(y, x, rows, cols, transpose, [=](float value) { return value / norm; });
}

template <class T>
void normalize_matrix(Queue& queue, T* y, const float* x, const ExactSum* squares,
                      std::int64_t rows, std::int64_t cols, bool transpose) {
  launch(queue, over_squares(rows, cols), normalize_matrix_kernel<T>, y, x,
         reinterpret_cast<const std::int64_t*>(squares), rows, cols, transpose);
}

template <class T>
GPU_KERNEL(side* lines)
scale_matrix_kernel(float* y, const T* x, float factor, std::int64_t rows, std::int64_t cols,
                    bool transpose) {
  map_square(y, x, rows, cols, transpose, [=](float value) { return factor * value; });
}

// y is [rows, cols]; x has that shape or its transpose.
template <class T>
void scale_matrix(Queue& queue, float* y, const T* x, double factor, std::int64_t rows,
                  std::int64_t cols, bool transpose) {
  if (transpose) std::swap(rows, cols);
  launch(queue, over_squares(rows, cols), scale_matrix_kernel<T>, y, x, static_cast<float>(factor),
         rows, cols, transpose);
}

template <class T>
GPU_KERNEL(256)
combine_kernel(T* y, float a, const T* x, float b, std::int64_t count, bool aligned) {
  for_eights(count, aligned, [=](const Columns& at) {
    store(y, at, each([=](float p, float q) { return a * p + b * q; }, load(y, at), load(x, at)));
  });
}

template <class T>
void combine(Queue& queue, T* y, double a, const T* x, double b, std::int64_t count) {
  launch(queue, over((count + 7) / 8), combine_kernel<T>, y, static_cast<float>(a), x,
         static_cast<float>(b), count, rows_are_aligned(8, y, x));
}

}  // namespace

template <class T>
void set_matrix(Kernels<T>& table) {
  table.normalize_matrix = normalize_matrix<T>;
  table.scale_matrix = scale_matrix<T>;
  table.combine = combine<T>;
}
TRIREME_GPU_INSTANTIATE(set_matrix);

}  // namespace trireme::gpu
