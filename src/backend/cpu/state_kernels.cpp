// Sums of gradients and states on the CPU, compiled once for all instruction sets
// because they are memory-bound.
#include "backend/state_kernels.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "backend/cpu/device.h"
#include "backend/rounding.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace trireme {

double fixed_point_limit(std::int64_t summands) {
  return std::ldexp(1.0, 62) / static_cast<double>(summands < 1 ? 1 : summands);
}

namespace cpu {
namespace {

constexpr std::int64_t grain = 1 << 16;

// --- plain sums ---

// Adds bf16 in float.
template <class T>
void add_typed(void* sums, const void* summands, std::int64_t count) {
  using Wide = std::conditional_t<std::is_arithmetic_v<T>, T, float>;
  auto* to = static_cast<T*>(sums);
  const auto* from = static_cast<const T*>(summands);
  parallel_ranges(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      to[i] = static_cast<T>(static_cast<Wide>(to[i]) + static_cast<Wide>(from[i]));
  });
}

void add(Queue&, DType dtype, void* sums, const void* summands, std::int64_t count) {
  switch (dtype) {
    case DType::i64:
      return add_typed<std::int64_t>(sums, summands, count);
    case DType::f64:
      return add_typed<double>(sums, summands, count);
    case DType::bf16:
      return add_typed<bf16>(sums, summands, count);
    case DType::f32:
    case DType::f16:
    case DType::i32:
    case DType::u16:
    case DType::u8:
      break;
  }
  TRIREME_CHECK(dtype == DType::f32);
  add_typed<float>(sums, summands, count);
}

// --- fixed point ---

// Rounds to the nearest integer, ties to even. Adding 2^52 leaves no bits for a fraction;
// larger numbers have none.
double rounded(double x) {
  constexpr double no_fraction = 0x1p52;
  const double shift = std::copysign(no_fraction, x);
  return std::fabs(x) < no_fraction ? (x + shift) - shift : x;
}

template <bool overwrite>
bool add_range(std::int64_t* sums, const float* gradient, std::int64_t count, double units,
               double limit) {
  bool bad = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const double scaled = static_cast<double>(gradient[i]) * units;
    const bool fits = std::fabs(scaled) < limit;  // false for NaN too
    const auto fixed = static_cast<std::int64_t>(fits ? rounded(scaled) : 0.0);
    bad |= !fits;
    sums[i] = overwrite ? fixed : sums[i] + fixed;
  }
  return !bad;
}

void add_fixed_point(Queue&, std::int64_t* sums, const float* gradient, std::int64_t count,
                     const StepBlock* block, double limit, bool overwrite,
                     std::int64_t* overflows) {
  std::atomic<bool> good{true};
  const double units = fixed_point_units(*block);
  parallel_ranges(count, grain, [&](std::int64_t begin, std::int64_t end) {
    const bool fits =
        overwrite ? add_range<true>(sums + begin, gradient + begin, end - begin, units, limit)
                  : add_range<false>(sums + begin, gradient + begin, end - begin, units, limit);
    if (!fits) good = false;
  });
  if (!good) ++*overflows;
}

void fixed_point_to_float(Queue&, std::int64_t* sums, std::int64_t count, const StepBlock* block) {
  const double unit = 1 / fixed_point_units(*block);
  auto* bytes = reinterpret_cast<unsigned char*>(sums);
  // Converts blocks in place, in parallel; then the blocks are moved together.
  const auto convert = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t sum;
      std::memcpy(&sum, bytes + 8 * i, 8);
      const float value = static_cast<float>(static_cast<double>(sum) * unit);
      std::memcpy(bytes + 8 * begin + 4 * (i - begin), &value, 4);
    }
  };
  parallel_ranges(count, grain, convert);
  for (std::int64_t begin = grain; begin < count; begin += grain) {
    const std::int64_t values = std::min(grain, count - begin);
    std::memmove(bytes + 4 * begin, bytes + 8 * begin, static_cast<std::size_t>(4 * values));
  }
}

// --- bf16 ---

// to[i] = value(i), rounded.
template <class Value>
void store_rounded(bf16* to, std::int64_t count, std::uint64_t key, std::int64_t first,
                   const Value& value) {
  TRIREME_CHECK(first % rounding_group == 0);
  parallel_ranges(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += rounding_group) {
      const auto counter = static_cast<std::uint64_t>((first + i) / rounding_group);
      std::uint64_t bits = rounding_bits(key, counter);
      for (std::int64_t j = i; j < i + rounding_group && j < end; ++j, bits >>= 16)
        to[j] = round_stochastically(value(j), static_cast<std::uint16_t>(bits));
    }
  });
}

void widen(Queue&, float* dst, const bf16* src, std::int64_t count) {
  parallel_ranges(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) dst[i] = static_cast<float>(src[i]);
  });
}

void narrow(Queue&, bf16* dst, const float* src, std::int64_t count, const Rounding& rounding,
            std::int64_t first) {
  store_rounded(dst, count, rounding_key(rounding), first, [&](std::int64_t i) { return src[i]; });
}

void add_narrow(Queue&, bf16* sums, const float* summands, std::int64_t count,
                const Rounding& rounding, bool overwrite) {
  store_rounded(sums, count, rounding_key(rounding), 0, [&](std::int64_t i) {
    return overwrite ? summands[i] : static_cast<float>(sums[i]) + summands[i];
  });
}

void copy_rows(Queue&, void* dst, std::int64_t dst_stride, const void* src, std::int64_t src_stride,
               std::int64_t bytes, std::int64_t rows) {
  const std::int64_t rows_per_task =
      std::max<std::int64_t>(1, grain / std::max<std::int64_t>(1, bytes));
  parallel_ranges(rows, rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::memcpy(static_cast<std::byte*>(dst) + row * dst_stride,
                  static_cast<const std::byte*>(src) + row * src_stride,
                  static_cast<std::size_t>(bytes));
    }
  });
}

// --- parts of several ranks ---

template <class T>
void reduce_parts_typed(bool maximum, void* dst, const void* mine, const void* parts,
                        std::int64_t stride, int ranks, int own, std::int64_t count) {
  using Wide = std::conditional_t<std::is_arithmetic_v<T>, T, float>;
  const auto part = [&](int k) {
    return k == own ? static_cast<const T*>(mine) : static_cast<const T*>(parts) + k * stride;
  };
  for (std::int64_t i = 0; i < count; ++i) {
    Wide value = static_cast<Wide>(part(0)[i]);
    for (int k = 1; k < ranks; ++k) {
      const Wide next = static_cast<Wide>(part(k)[i]);
      if (!maximum) {
        value += next;
      } else if (next > value || next != next) {
        value = next;
      }
    }
    static_cast<T*>(dst)[i] = static_cast<T>(value);
  }
}

void reduce_parts(Queue&, DType dtype, bool maximum, void* dst, const void* mine, const void* parts,
                  std::int64_t stride, int ranks, int own, std::int64_t count) {
  const auto reduce = [&]<class T>(T) {
    reduce_parts_typed<T>(maximum, dst, mine, parts, stride, ranks, own, count);
  };
  dtype == DType::i64 ? reduce(std::int64_t{}) : with_compute_type(dtype, reduce);
}

}  // namespace

const StateKernels& state_kernels() {
  static constexpr StateKernels table{.add = add,
                                      .add_fixed_point = add_fixed_point,
                                      .fixed_point_to_float = fixed_point_to_float,
                                      .widen = widen,
                                      .narrow = narrow,
                                      .add_narrow = add_narrow,
                                      .copy_rows = copy_rows,
                                      .reduce_parts = reduce_parts};
  return table;
}

}  // namespace cpu
}  // namespace trireme
