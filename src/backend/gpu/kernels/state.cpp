// Sums of gradients and optimizer states, bitwise equal to the CPU's.
#include <algorithm>
#include <type_traits>

#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"
#include "backend/rounding.h"

namespace trireme::gpu {
namespace {

// --- plain sums ---

// Neighboring elements [first, first + n) of an array, accessed as one if
// all exist and are aligned.
template <class T, int n>
struct Neighbors {
  T v[n];

  GPU_FN void load(const T* from, std::int64_t first, std::int64_t count, bool aligned) {
    if (aligned && first + n <= count) {
      const auto pack = *reinterpret_cast<const Pack<T, n>*>(from + first);
#pragma unroll
      for (int i = 0; i < n; ++i) v[i] = pack.v[i];
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i) v[i] = first + i < count ? from[first + i] : T{};
    }
  }
  GPU_FN void store(T* to, std::int64_t first, std::int64_t count, bool aligned) const {
    if (aligned && first + n <= count) {
      Pack<T, n> pack;
#pragma unroll
      for (int i = 0; i < n; ++i) pack.v[i] = v[i];
      *reinterpret_cast<Pack<T, n>*>(to + first) = pack;
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i) {
        if (first + i < count) to[first + i] = v[i];
      }
    }
  }
};

template <class... T>
bool are_aligned(std::size_t bytes, const T*... p) {
  return ((reinterpret_cast<std::uintptr_t>(p) % bytes == 0) && ...);
}

// Adds bf16 in float.
template <class T>
GPU_FN T plus(T a, T b) {
  if constexpr (std::is_arithmetic_v<T>)
    return a + b;
  else
    return from_float<T>(to_float(a) + to_float(b));
}

template <class T>
GPU_KERNEL(256)
add_sums_kernel(T* sums, const T* summands, std::int64_t count, bool aligned) {
  constexpr int n = pack_width<T>;
  for_each((count + n - 1) / n, [=](std::int64_t item) {
    Neighbors<T, n> to, from;
    to.load(sums, item * n, count, aligned);
    from.load(summands, item * n, count, aligned);
#pragma unroll
    for (int i = 0; i < n; ++i) to.v[i] = plus(to.v[i], from.v[i]);
    to.store(sums, item * n, count, aligned);
  });
}

template <class T>
void add_typed(Queue& queue, void* sums, const void* summands, std::int64_t count) {
  auto* const to = static_cast<T*>(sums);
  const auto* const from = static_cast<const T*>(summands);
  launch(queue, over((count + pack_width<T> - 1) / pack_width<T>), add_sums_kernel<T>, to, from,
         count, are_aligned(16, to, from));
}

void add(Queue& queue, DType dtype, void* sums, const void* summands, std::int64_t count) {
  if (dtype == DType::i64) return add_typed<std::int64_t>(queue, sums, summands, count);
  if (dtype == DType::f64) return add_typed<double>(queue, sums, summands, count);
  if (dtype == DType::bf16) return add_typed<bf16>(queue, sums, summands, count);
  add_typed<float>(queue, sums, summands, count);
}

// --- fixed point ---

GPU_KERNEL(256)
add_fixed_point_kernel(std::int64_t* sums, const float* gradient, std::int64_t count,
                       const StepBlock* block, double limit, bool overwrite,
                       std::int64_t* overflows, bool aligned) {
  const double units = fixed_point_units(*block);
  std::int64_t bad = 0;
  for_each((count + 3) / 4, [&](std::int64_t item) {
    Neighbors<float, 4> from;
    from.load(gradient, 4 * item, count, aligned);
    Neighbors<std::int64_t, 2> to[2];
    for (int half = 0; half < 2; ++half) {
      const std::int64_t first = 4 * item + 2 * half;
      if (!overwrite) to[half].load(sums, first, count, aligned);
      for (int i = 0; i < 2; ++i) {
        const double scaled = static_cast<double>(from.v[2 * half + i]) * units;
        const bool fits = (scaled < 0 ? -scaled : scaled) < limit;  // false for NaN too
        const auto fixed = static_cast<std::int64_t>(fits ? round_to_even(scaled) : 0.0);
        bad += fits ? 0 : 1;
        to[half].v[i] = overwrite ? fixed : to[half].v[i] + fixed;
      }
      to[half].store(sums, first, count, aligned);
    }
  });
  if (bad > 0) atomic_add(overflows, bad);
}

void add_fixed_point(Queue& queue, std::int64_t* sums, const float* gradient, std::int64_t count,
                     const StepBlock* block, double limit, bool overwrite,
                     std::int64_t* overflows) {
  launch(queue, over((count + 3) / 4), add_fixed_point_kernel, sums, gradient, count, block, limit,
         overwrite, overflows, are_aligned(16, sums, gradient));
}

GPU_FN float unfixed(std::int64_t sum, double unit) {
  return static_cast<float>(static_cast<double>(sum) * unit);
}

// Float i lies in the memory of sum i / 2. A round therefore converts [begin, 2 begin), whose
// floats overwrite the sums of the round before. The first rounds run in one block.
constexpr int first_threads = 256;
constexpr std::int64_t first_rounds = 8192;

GPU_KERNEL(first_threads)
first_floats_kernel(std::int64_t* sums, std::int64_t count, const StepBlock* block) {
  const double unit = 1 / fixed_point_units(*block);
  auto* const floats = reinterpret_cast<float*>(sums);
  const std::int64_t mine = thread_index();
  const float value = mine < count ? unfixed(sums[mine], unit) : 0.0f;
  sync_block();  // all threads have read what is overwritten next
  if (mine < count) floats[mine] = value;
  for (std::int64_t begin = first_threads; begin < first_rounds; begin *= 2) {
    sync_block();
    for (std::int64_t i = begin + mine; i < 2 * begin && i < count; i += first_threads)
      floats[i] = unfixed(sums[i], unit);
  }
}

GPU_KERNEL(256)
floats_kernel(std::int64_t* sums, std::int64_t begin, std::int64_t end, const StepBlock* block) {
  const double unit = 1 / fixed_point_units(*block);
  auto* const floats = reinterpret_cast<float*>(sums);
  for_each(end - begin,
           [=](std::int64_t i) { floats[begin + i] = unfixed(sums[begin + i], unit); });
}

void fixed_point_to_float(Queue& queue, std::int64_t* sums, std::int64_t count,
                          const StepBlock* block) {
  launch(queue, one_block_each(1, first_threads), first_floats_kernel, sums, count, block);
  for (std::int64_t begin = first_rounds; begin < count; begin *= 2) {
    const std::int64_t end = std::min(2 * begin, count);
    launch(queue, over(end - begin), floats_kernel, sums, begin, end, block);
  }
}

// --- bf16 ---

GPU_KERNEL(256)
widen_kernel(float* dst, const bf16* src, std::int64_t count, bool aligned) {
  for_each((count + 3) / 4, [=](std::int64_t item) {
    Neighbors<bf16, 4> from;
    from.load(src, 4 * item, count, aligned);
    Neighbors<float, 4> to;
#pragma unroll
    for (int i = 0; i < 4; ++i) to.v[i] = to_float(from.v[i]);
    to.store(dst, 4 * item, count, aligned);
  });
}

void widen(Queue& queue, float* dst, const bf16* src, std::int64_t count) {
  launch(queue, over((count + 3) / 4), widen_kernel, dst, src, count,
         are_aligned(16, dst) && are_aligned(8, src));
}

// to[i] = from[i], or to[i] + from[i], rounded: each thread handles a group of
// elements that share random bits.
template <bool adds>
GPU_KERNEL(256)
narrow_kernel(bf16* to, const float* from, std::int64_t count, const Rounding rounding,
              std::int64_t first, bool aligned) {
  constexpr int n = rounding_group;
  const std::uint64_t key = rounding_key(rounding);
  for_each((count + n - 1) / n, [=](std::int64_t group) {
    Neighbors<float, n> values;
    values.load(from, n * group, count, aligned);
    Neighbors<bf16, n> results;
    if constexpr (adds) results.load(to, n * group, count, aligned);
    std::uint64_t bits = rounding_bits(key, static_cast<std::uint64_t>(first / n + group));
#pragma unroll
    for (int i = 0; i < n; ++i, bits >>= 16) {
      const float sum = adds ? to_float(results.v[i]) + values.v[i] : values.v[i];
      results.v[i] = round_stochastically(sum, static_cast<std::uint16_t>(bits));
    }
    results.store(to, n * group, count, aligned);
  });
}

template <bool adds>
void launch_narrow(Queue& queue, bf16* to, const float* from, std::int64_t count,
                   const Rounding& rounding, std::int64_t first) {
  launch(queue, over((count + rounding_group - 1) / rounding_group), narrow_kernel<adds>, to, from,
         count, rounding, first, are_aligned(16, from) && are_aligned(8, to));
}

void narrow(Queue& queue, bf16* dst, const float* src, std::int64_t count, const Rounding& rounding,
            std::int64_t first) {
  launch_narrow<false>(queue, dst, src, count, rounding, first);
}

void add_narrow(Queue& queue, bf16* sums, const float* summands, std::int64_t count,
                const Rounding& rounding, bool overwrite) {
  if (overwrite) return launch_narrow<false>(queue, sums, summands, count, rounding, 0);
  launch_narrow<true>(queue, sums, summands, count, rounding, 0);
}

// --- parts of several ranks ---

template <class T>
using Wide = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

template <class T>
GPU_FN Wide<T> widened(T x) {
  if constexpr (std::is_arithmetic_v<T>)
    return x;
  else
    return to_float(x);
}

template <class T>
GPU_FN T narrowed(Wide<T> x) {
  if constexpr (std::is_arithmetic_v<T>)
    return x;
  else
    return from_float<T>(x);
}

template <class T>
GPU_KERNEL(256)
reduce_parts_kernel(T* dst, const T* mine, const T* parts, std::int64_t stride, int ranks, int own,
                    std::int64_t count, bool maximum, bool aligned) {
  constexpr int n = pack_width<T>;
  for_each((count + n - 1) / n, [=](std::int64_t item) {
    Wide<T> values[n] = {};
    for (int rank = 0; rank < ranks; ++rank) {
      Neighbors<T, n> from;
      from.load(rank == own ? mine : parts + rank * stride, item * n, count, aligned);
#pragma unroll
      for (int i = 0; i < n; ++i) {
        const Wide<T> next = widened(from.v[i]);
        if (rank == 0) {
          values[i] = next;
        } else if (!maximum) {
          values[i] += next;
        } else if (next > values[i] || next != next) {
          values[i] = next;
        }
      }
    }
    Neighbors<T, n> to;
#pragma unroll
    for (int i = 0; i < n; ++i) to.v[i] = narrowed<T>(values[i]);
    to.store(dst, item * n, count, aligned);
  });
}

template <class T>
void reduce_parts_typed(Queue& queue, bool maximum, void* dst, const void* mine, const void* parts,
                        std::int64_t stride, int ranks, int own, std::int64_t count) {
  auto* const to = static_cast<T*>(dst);
  const auto* const first = static_cast<const T*>(mine);
  const auto* const others = static_cast<const T*>(parts);
  const bool aligned = are_aligned(16, to, first, others) && stride % pack_width<T> == 0;
  launch(queue, over((count + pack_width<T> - 1) / pack_width<T>), reduce_parts_kernel<T>, to,
         first, others, stride, ranks, own, count, maximum, aligned);
}

void reduce_parts(Queue& queue, DType dtype, bool maximum, void* dst, const void* mine,
                  const void* parts, std::int64_t stride, int ranks, int own, std::int64_t count) {
  const auto reduce = [&]<class T>(T) {
    reduce_parts_typed<T>(queue, maximum, dst, mine, parts, stride, ranks, own, count);
  };
  dtype == DType::i64 ? reduce(std::int64_t{}) : with_compute_type(dtype, reduce);
}

// --- pieces of rows ---

// Copies `rows` rows of `words` words each; strides are in words too.
template <class Word>
GPU_KERNEL(256)
copy_rows_kernel(Word* dst, std::int64_t dst_stride, const Word* src, std::int64_t src_stride,
                 std::int64_t words, std::int64_t rows) {
  for_each(rows * words, [=](std::int64_t i) {
    const std::int64_t row = i / words, word = i % words;
    dst[row * dst_stride + word] = src[row * src_stride + word];
  });
}

template <class Word>
void copy_rows_of(Queue& queue, void* dst, std::int64_t dst_stride, const void* src,
                  std::int64_t src_stride, std::int64_t bytes, std::int64_t rows) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(Word));
  launch(queue, over(rows * bytes / size), copy_rows_kernel<Word>, static_cast<Word*>(dst),
         dst_stride / size, static_cast<const Word*>(src), src_stride / size, bytes / size, rows);
}

// Uses the widest words that divide all rows; elements have at least two bytes.
void copy_rows(Queue& queue, void* dst, std::int64_t dst_stride, const void* src,
               std::int64_t src_stride, std::int64_t bytes, std::int64_t rows) {
  if (rows * bytes == 0) return;
  const auto are_made_of = [&](std::int64_t word) {
    return (dst_stride | src_stride | bytes) % word == 0 &&
           are_aligned(static_cast<std::size_t>(word), static_cast<std::byte*>(dst),
                       static_cast<const std::byte*>(src));
  };
  const auto copy = [&]<class Word>(Word) {
    copy_rows_of<Word>(queue, dst, dst_stride, src, src_stride, bytes, rows);
  };
  if (are_made_of(16)) {
    copy(Pack<std::uint32_t, 4>{});
  } else if (are_made_of(4)) {
    copy(std::uint32_t{});
  } else {
    copy(std::uint16_t{});
  }
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

}  // namespace trireme::gpu
