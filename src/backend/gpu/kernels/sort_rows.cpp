// Counting sort. A row's rank among those of its id is the number of earlier ones,
// found by scanning all rows: for the number of rows in a step this is cheap, and
// it makes the sort stable.
#include "backend/gpu/kernels/sort_rows.h"

#include "backend/gpu/kernels/block_prefix.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

constexpr int threads = 256;

// counts[i] = number of rows with id i; must be zeroed before.
GPU_KERNEL(threads)
count_ids_kernel(std::int32_t* counts, const std::int32_t* ids, std::int64_t rows,
                 std::int64_t first_id, std::int64_t local_ids) {
  for_each(rows, [=](std::int64_t r) {
    const std::int64_t id = ids[r] - first_id;
    if (id >= 0 && id < local_ids) atomic_add(counts + id, 1);
  });
}

// Exclusive prefix sums of the counts. Runs as one block.
GPU_KERNEL(threads)
sums_before_kernel(std::int32_t* counts, std::int64_t count) {
  constexpr int each = 16;  // per thread
  std::int32_t carry = 0;
  for (std::int64_t first = 0; first < count; first += threads * each) {
    const std::int64_t mine = first + std::int64_t{thread_index()} * each;
    std::int32_t values[each], total = 0;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      values[i] = mine + i < count ? counts[mine + i] : 0;
      total += values[i];
    }
    const Prefix prefix = block_prefix<threads>(total);
    std::int32_t before = carry + prefix.before;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      if (mine + i < count) counts[mine + i] = before;
      before += values[i];
    }
    carry += prefix.all;
  }
}

struct Ids {
  std::int32_t of[threads];
};

// Block b places the rows [b * threads, (b + 1) * threads).
GPU_KERNEL(threads)
place_rows_kernel(std::int32_t* order, const std::int32_t* start, const std::int32_t* ids,
                  std::int64_t rows, std::int64_t first_id, std::int64_t local_ids) {
  const std::int64_t row = std::int64_t{block_index().x} * threads + thread_index();
  const std::int32_t id = row < rows ? ids[row] : 0;
  auto& tile = shared_memory<Ids>();
  std::int32_t earlier = 0;
  for (unsigned t = 0; t <= block_index().x; ++t) {
    const std::int64_t other = std::int64_t{t} * threads + thread_index();
    tile.of[thread_index()] = other < rows ? ids[other] : 0;
    sync_block();
    const int end = t < block_index().x ? threads : static_cast<int>(thread_index());
#pragma unroll 8
    for (int i = 0; i < end; ++i) earlier += tile.of[i] == id ? 1 : 0;
    sync_block();
  }
  const std::int64_t local = id - first_id;
  if (row < rows && local >= 0 && local < local_ids)
    order[start[local] + earlier] = static_cast<std::int32_t>(row);
}

}  // namespace

void sort_rows(Queue& queue, std::int32_t* start, std::int32_t* order, const std::int32_t* ids,
               std::int64_t rows, std::int64_t first_id, std::int64_t local_ids) {
  queue.fill(start, 0, (local_ids + 1) * static_cast<std::int64_t>(sizeof *start));
  launch(queue, over(rows, threads), count_ids_kernel, start, ids, rows, first_id, local_ids);
  launch(queue, one_block_each(1, threads), sums_before_kernel, start, local_ids + 1);
  launch(queue, one_block_each((rows + threads - 1) / threads, threads), place_rows_kernel, order,
         start, ids, rows, first_id, local_ids);
}

}  // namespace trireme::gpu
