// Small kernels as plain loops.
#include "backend/cpu/small_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "base/exact_sum.h"
#include "base/portable_math.h"
#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

// Block whose squares are summed in a fixed order; every slice of a parameter starts at one.
constexpr std::int64_t square_grain = square_block * 256;

std::int64_t checked(std::int32_t row, std::int64_t source_rows) {
  TRIREME_CHECK(row >= 0 && row < source_rows);
  return row;
}

}  // namespace

template <class T>
void gather(T* y, const T* x, const std::int32_t* numbers, std::int64_t taken, std::int64_t columns,
            std::int64_t source_rows) {
  for (std::int64_t i = 0; i < taken; ++i) {
    std::memcpy(y + i * columns, x + checked(numbers[i], source_rows) * columns,
                columns * sizeof(T));
  }
}

template <class T>
void gather_grad(T* dx, const T* dy, const std::int32_t* numbers, std::int64_t taken,
                 std::int64_t columns, std::int64_t source_rows) {
  using A = Acc<T>;
  std::memset(static_cast<void*>(dx), 0, source_rows * columns * sizeof(T));
  for (std::int64_t i = 0; i < taken; ++i) {
    T* sum = dx + checked(numbers[i], source_rows) * columns;
    const T* term = dy + i * columns;
    for (std::int64_t c = 0; c < columns; ++c) {
      sum[c] = static_cast<T>(static_cast<A>(sum[c]) + static_cast<A>(term[c]));
    }
  }
}

template <class A>
void softmax_rescale(A* sums, const A* sum, const A* target_logit, const A* local_largest,
                     const A* largest, std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; ++r) {
    sums[r] = sum[r] * math::exp(local_largest[r] - largest[r]);
    sums[rows + r] = target_logit[r];
  }
}

template <class A>
void token_loss(A* loss, A* lse, const A* largest, const A* sum, const A* target_logit,
                std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; ++r) {
    lse[r] = largest[r] + math::log(sum[r]);
    loss[r] = lse[r] - target_logit[r];
  }
}

template <class A>
void add_losses(ExactSum* total, ExactSum* total_weight, const A* losses, const float* weights,
                std::int64_t count) {
  double loss = 0, sum_of_weights = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (weights && weights[i] == 0) continue;
    const double weight = weights ? weights[i] : 1;
    loss += weight * static_cast<double>(losses[i]);
    sum_of_weights += weight;
  }
  total->add(loss);
  total_weight->add(sum_of_weights);
}

template <class T>
void copy_blocks(T* dst, const T* src, const BlockCopy& copy) {
  const std::int64_t inner = copy.counts[2], middle = copy.counts[1];
  const std::int64_t blocks = copy.counts[0] * middle * inner;
  constexpr std::int64_t elements_at_once = 64 << 10;
  parallel_ranges(
      blocks, std::max<std::int64_t>(1, elements_at_once / copy.width),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n) {
          const std::int64_t at[3] = {n / inner / middle, n / inner % middle, n % inner};
          std::int64_t to = copy.dst_first, from = copy.src_first;
          for (int i = 0; i < 3; ++i) {
            to += at[i] * copy.dst_strides[i];
            from += at[i] * copy.src_strides[i];
          }
          std::memcpy(dst + to, src + from, copy.width * sizeof(T));
        }
      });
}

template <class T>
void sum_blocks(T* dst, const T* src, const BlockCopy& copy) {
  using A = Acc<T>;
  constexpr std::int64_t columns_at_once = 64, elements_at_once = 16 << 10;
  const std::int64_t sums = copy.counts[0] * copy.counts[1];
  const std::int64_t grain = elements_at_once / (copy.width * copy.counts[2]);
  parallel_ranges(
      sums, std::max<std::int64_t>(1, grain), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n) {
          const std::int64_t i = n / copy.counts[1], j = n % copy.counts[1];
          T* const to = dst + copy.dst_first + i * copy.dst_strides[0] + j * copy.dst_strides[1];
          const T* const from =
              src + copy.src_first + i * copy.src_strides[0] + j * copy.src_strides[1];
          for (std::int64_t first = 0; first < copy.width; first += columns_at_once) {
            const std::int64_t columns = std::min(columns_at_once, copy.width - first);
            A sum[columns_at_once] = {};
            for (std::int64_t k = 0; k < copy.counts[2]; ++k) {
              const T* const term = from + k * copy.src_strides[2] + first;
              for (std::int64_t c = 0; c < columns; ++c) sum[c] += static_cast<A>(term[c]);
            }
            for (std::int64_t c = 0; c < columns; ++c) to[first + c] = static_cast<T>(sum[c]);
          }
        }
      });
}

template <class T>
void add_group_bias(const GroupBiasShape& s, T* y, const T* bias, const std::int32_t* offsets) {
  using A = Acc<T>;
  parallel_ranges(s.groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      const T* const own = bias + g * s.stride;
      for (std::int64_t r = offsets[g * s.blocks]; r < offsets[(g + 1) * s.blocks]; ++r) {
        T* const row = y + r * s.cols;
        for (std::int64_t c = 0; c < s.cols; ++c)
          row[c] = static_cast<T>(static_cast<A>(row[c]) + static_cast<A>(own[c]));
      }
    }
  });
}

template <class T>
void group_bias_grad(const GroupBiasShape& s, Acc<T>* dbias, bool accumulate, const T* dy,
                     const std::int32_t* offsets) {
  using A = Acc<T>;
  constexpr std::int64_t columns_at_once = 64;
  parallel_ranges(s.groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      for (std::int64_t first = 0; first < s.cols; first += columns_at_once) {
        const std::int64_t columns = std::min(columns_at_once, s.cols - first);
        A sum[columns_at_once] = {};
        for (std::int64_t r = offsets[g * s.blocks]; r < offsets[(g + 1) * s.blocks]; ++r) {
          const T* const row = dy + r * s.cols + first;
          for (std::int64_t c = 0; c < columns; ++c) sum[c] += static_cast<A>(row[c]);
        }
        A* const to = dbias + g * s.stride + first;
        for (std::int64_t c = 0; c < columns; ++c) to[c] = accumulate ? to[c] + sum[c] : sum[c];
      }
    }
  });
}

template <class A>
void add_squares_in_blocks(double (*sum_of_squares)(const A*, std::int64_t), ExactSum* total,
                           const A* x, std::int64_t count, std::int64_t block) {
  std::mutex mutex;
  parallel_ranges(count, square_grain, [&](std::int64_t begin, std::int64_t end) {
    ExactSum sum;
    for (std::int64_t i = begin; i < end; i += block)
      sum.add(sum_of_squares(x + i, std::min(block, end - i)));
    const std::lock_guard lock(mutex);
    total->add(sum);
  });
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot appear in parentheses here.
#define TRIREME_INSTANTIATE(T)                                                             \
  template void gather(T*, const T*, const std::int32_t*, std::int64_t, std::int64_t,      \
                       std::int64_t);                                                      \
  template void gather_grad(T*, const T*, const std::int32_t*, std::int64_t, std::int64_t, \
                            std::int64_t);                                                 \
  template void copy_blocks(T*, const T*, const BlockCopy&);                               \
  template void sum_blocks(T*, const T*, const BlockCopy&);                                \
  template void add_group_bias(const GroupBiasShape&, T*, const T*, const std::int32_t*);  \
  template void group_bias_grad(const GroupBiasShape&, Acc<T>*, bool, const T*,            \
                                const std::int32_t*);
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(bf16)
TRIREME_INSTANTIATE(f16)
TRIREME_INSTANTIATE(double)
#undef TRIREME_INSTANTIATE
#define TRIREME_INSTANTIATE(A)                                                                 \
  template void softmax_rescale(A*, const A*, const A*, const A*, const A*, std::int64_t);     \
  template void token_loss(A*, A*, const A*, const A*, const A*, std::int64_t);                \
  template void add_losses(ExactSum*, ExactSum*, const A*, const float*, std::int64_t);        \
  template void add_squares_in_blocks(double (*)(const A*, std::int64_t), ExactSum*, const A*, \
                                      std::int64_t, std::int64_t);
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(double)
#undef TRIREME_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace trireme::cpu
