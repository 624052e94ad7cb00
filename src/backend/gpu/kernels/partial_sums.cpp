// Reduction of partial sums.
#include "backend/gpu/kernels/partial_sums.h"

#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

constexpr int summed_columns = 32, summing_lanes = 8;

struct LaneSums {
  float of[summing_lanes][summed_columns];
};

// One row of blocks per destination. Lane l of a column adds parts l, l + 8 and so on; then the
// lanes are added in order.
GPU_KERNEL(summed_columns* summing_lanes)
add_parts_kernel(float* first, float* second, float* third, float* fourth, bool accumulate,
                 const float* all_parts, std::int64_t chunks, std::int64_t cols) {
  const unsigned which = block_index().y;
  float* const dst = which == 0 ? first : which == 1 ? second : which == 2 ? third : fourth;
  const float* const parts = all_parts + block_index().y * chunks * cols;
  const int column = static_cast<int>(thread_index()) % summed_columns;
  const int mine = static_cast<int>(thread_index()) / summed_columns;
  const std::int64_t c = std::int64_t{block_index().x} * summed_columns + column;
  float sum = 0;
  if (c < cols) {
#pragma unroll 4
    for (std::int64_t i = mine; i < chunks; i += summing_lanes) sum += parts[i * cols + c];
  }
  auto& lanes = shared_memory<LaneSums>();
  lanes.of[mine][column] = sum;
  sync_block();
  if (mine != 0 || c >= cols) return;
  float total = 0;
  for (int l = 0; l < summing_lanes; ++l) total += lanes.of[l][column];
  dst[c] = accumulate ? dst[c] + total : total;
}

}  // namespace

void add_parts(Queue& queue, std::span<float* const> dst, bool accumulate, const float* parts,
               std::int64_t chunks, std::int64_t cols) {
  float* all[most_sums] = {};
  unsigned count = 0;
  for (float* const one : dst)
    if (one) all[count++] = one;
  const auto across = static_cast<unsigned>((cols + summed_columns - 1) / summed_columns);
  launch(queue, {.blocks = Size{across, count}, .threads = summed_columns * summing_lanes},
         add_parts_kernel, all[0], all[1], all[2], all[3], accumulate, parts, chunks, cols);
}

}  // namespace trireme::gpu
