// Gathering of rows by index, and its gradient; copies and sums of blocks
// of elements with strides.
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

constexpr int threads = 128;

// One block per taken row.
template <class T>
GPU_KERNEL(threads)
gather_kernel(T* y, const T* x, const std::int32_t* numbers, std::int64_t cols, bool aligned) {
  const std::int64_t i = block_index().x, from = numbers[i];
  for (std::int64_t c = 8 * thread_index(); c < cols; c += 8 * threads) {
    const Columns at = columns_at(c, cols, aligned);
    store(y + i * cols, at, load(x + from * cols, at));
  }
}

template <class T>
void gather(Queue& queue, T* y, const T* x, const std::int32_t* numbers, std::int64_t taken,
            std::int64_t columns, std::int64_t) {
  launch(queue, one_block_each(taken, threads), gather_kernel<T>, y, x, numbers, columns,
         rows_are_aligned(columns, y, x));
}

struct Numbers {
  std::int32_t of[threads];
};

// One block per row of dx and 8 * threads columns. It scans all numbers, one per thread at a time,
// and adds the rows with its own number, rounding each time.
template <class T>
GPU_KERNEL(threads)
gather_grad_kernel(T* dx, const T* dy, const std::int32_t* numbers, std::int64_t taken,
                   std::int64_t cols, bool aligned) {
  const std::int64_t row = block_index().x;
  const Columns at =
      columns_at(8 * (std::int64_t{block_index().y} * threads + thread_index()), cols, aligned);
  auto& shared = shared_memory<Numbers>();
  Eight sum = zeros();
  for (std::int64_t first = 0; first < taken; first += threads) {
    const std::int64_t mine = first + thread_index();
    const std::int32_t number = mine < taken ? numbers[mine] : -1;
    shared.of[thread_index()] = number;
    if (block_max<threads>(number == row ? 1 : 0)) {
      for (int i = 0; i < threads; ++i) {
        if (shared.of[i] != row || !at.any()) continue;
        sum = rounded<T>(
            each([](float p, float q) { return p + q; }, sum, load(dy + (first + i) * cols, at)));
      }
    }
    sync_block();  // the numbers are about to be replaced
  }
  if (at.any()) store(dx + row * cols, at, sum);
}

template <class T>
void gather_grad(Queue& queue, T* dx, const T* dy, const std::int32_t* numbers, std::int64_t taken,
                 std::int64_t columns, std::int64_t source_rows) {
  const Launch size{
      .blocks = Size{static_cast<unsigned>(source_rows),
                     static_cast<unsigned>((columns + 8 * threads - 1) / (8 * threads))},
      .threads = threads};
  launch(queue, size, gather_grad_kernel<T>, dx, dy, numbers, taken, columns,
         rows_are_aligned(columns, dx, dy));
}

// Offset of block (i, j, k).
GPU_FN std::int64_t place_of(std::int64_t first, const std::int64_t (&strides)[3], std::int64_t i,
                             std::int64_t j, std::int64_t k) {
  return first + i * strides[0] + j * strides[1] + k * strides[2];
}

template <class T>
GPU_KERNEL(256)
copy_blocks_kernel(T* dst, const T* src, const BlockCopy copy, bool aligned) {
  const std::int64_t eights = (copy.width + 7) / 8;
  const std::int64_t blocks = copy.counts[0] * copy.counts[1] * copy.counts[2];
  for_each(blocks * eights, [=](std::int64_t n) {
    const std::int64_t block = n / eights, k = block % copy.counts[2];
    const std::int64_t j = block / copy.counts[2] % copy.counts[1];
    const std::int64_t i = block / copy.counts[2] / copy.counts[1];
    const Columns at = columns_at(8 * (n % eights), copy.width, aligned);
    store(dst + place_of(copy.dst_first, copy.dst_strides, i, j, k), at,
          load(src + place_of(copy.src_first, copy.src_strides, i, j, k), at));
  });
}

template <class T>
GPU_KERNEL(256)
sum_blocks_kernel(T* dst, const T* src, const BlockCopy copy, bool aligned) {
  const std::int64_t eights = (copy.width + 7) / 8;
  for_each(copy.counts[0] * copy.counts[1] * eights, [=](std::int64_t n) {
    const std::int64_t block = n / eights, i = block / copy.counts[1], j = block % copy.counts[1];
    const Columns at = columns_at(8 * (n % eights), copy.width, aligned);
    Eight sum = zeros();
    for (std::int64_t k = 0; k < copy.counts[2]; ++k) {
      sum = each([](float p, float q) { return p + q; }, sum,
                 load(src + place_of(copy.src_first, copy.src_strides, i, j, k), at));
    }
    store(dst + place_of(copy.dst_first, copy.dst_strides, i, j, 0), at, sum);
  });
}

template <class T>
bool blocks_are_aligned(T* dst, const T* src, const BlockCopy& copy) {
  bool aligned = rows_are_aligned(copy.width, dst, src) && rows_are_aligned(copy.dst_first, dst) &&
                 rows_are_aligned(copy.src_first, src);
  for (int i = 0; i < 3; ++i) {
    aligned = aligned && rows_are_aligned(copy.dst_strides[i], dst) &&
              rows_are_aligned(copy.src_strides[i], src);
  }
  return aligned;
}

template <class T>
void copy_blocks(Queue& queue, T* dst, const T* src, const BlockCopy& copy) {
  const std::int64_t blocks = copy.counts[0] * copy.counts[1] * copy.counts[2];
  launch(queue, over(blocks * ((copy.width + 7) / 8)), copy_blocks_kernel<T>, dst, src, copy,
         blocks_are_aligned(dst, src, copy));
}

template <class T>
void sum_blocks(Queue& queue, T* dst, const T* src, const BlockCopy& copy) {
  const std::int64_t blocks = copy.counts[0] * copy.counts[1];
  launch(queue, over(blocks * ((copy.width + 7) / 8)), sum_blocks_kernel<T>, dst, src, copy,
         blocks_are_aligned(dst, src, copy));
}

}  // namespace

template <class T>
void set_rows(Kernels<T>& table) {
  table.gather = gather<T>;
  table.gather_grad = gather_grad<T>;
  table.copy_blocks = copy_blocks<T>;
  table.sum_blocks = sum_blocks<T>;
}
TRIREME_GPU_INSTANTIATE(set_rows);

}  // namespace trireme::gpu
