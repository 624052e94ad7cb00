// Sums over rows and over whole tensors.
#include "backend/cpu/kernels/combine_chunks.h"
#include "backend/cpu/kernels/table.h"
#include "backend/cpu/small_kernels.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
void bias_grad(Acc<T>* dbias, bool accumulate, const T* dy, std::int64_t rows, std::int64_t cols,
               Acc<T>* workspace) {
  sum_rows<T>(dbias, accumulate, workspace, rows, cols,
              sizeof(T) * byte_ns * static_cast<double>(cols),
              [=](std::int64_t row, int) { return dy + row * cols; });
}

// Adds the squares of x to lanes of double.
TRIREME_INLINE void add_squares(Vec<double> (&sum)[2], Vec<double> x) {
  sum[0] += x * x;
}

#ifdef __AVX512F__
TRIREME_INLINE void add_squares(Vec<double> (&sum)[2], Vec<float> x) {
  const auto bits = (__m512d)x.part[0];
  const Vec<double> low = {_mm512_cvtps_pd((__m256)_mm512_castpd512_pd256(bits))};
  const Vec<double> high = {_mm512_cvtps_pd((__m256)_mm512_extractf64x4_pd(bits, 1))};
  sum[0] += low * low;
  sum[1] += high * high;
}
#else
TRIREME_INLINE Vec<double> widen(__m256 x) {
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
}

TRIREME_INLINE void add_squares(Vec<double> (&sum)[2], Vec<float> x) {
  const Vec<double> low = widen(x.part[0]), high = widen(x.part[1]);
  sum[0] += low * low;
  sum[1] += high * high;
}
#endif

template <class A>
double squares_in(const A* x, std::int64_t count) {
  Vec<double> sum[2] = {splat(0.0), splat(0.0)};
  for_vectors<Vec<A>::lanes>(count, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    add_squares(sum, load(x + i, n));
  });
  return sum_lanes(sum[0] + sum[1]);
}

template <class A>
double sum_of_squares(const A* x, std::int64_t count) {
  const std::int64_t chunk = flat_chunk(count);
  double parts[max_flat_chunks];
  double* const out = parts;
  parallel_chunks(count, chunk, sizeof(A) * byte_ns,
                  [=](std::int64_t part, std::int64_t begin, std::int64_t end) {
                    out[part] = squares_in(x + begin, end - begin);
                  });
  double total = 0;
  for (std::int64_t i = 0; i * chunk < count; ++i) total += parts[i];
  return total;
}

template <class A>
void add_squares_to(ExactSum* total, const A* x, std::int64_t count, std::int64_t block) {
  add_squares_in_blocks<A>(sum_of_squares<A>, total, x, count, block);
}

}  // namespace

template <class T>
void set_reduce(Kernels<T>& table) {
  table.bias_grad = at_once<bias_grad<T>>;
  table.add_squares = at_once<add_squares_to<Acc<T>>>;
}
TRIREME_INSTANTIATE(set_reduce)

}  // namespace trireme::cpu::TRIREME_ISA
