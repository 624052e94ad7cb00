// Accumulators of a step. Sums are exact: terms are split into limbs that are added as integers, so
// the order of blocks does not matter.
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/exact_terms.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

// Lanes that sum the squares of one block; half a wave if waves are wide. The order is the same
// everywhere.
constexpr int square_lanes = square_block / 8;
static_assert(square_lanes == narrowest_wave);

constexpr int square_threads = 256, groups = square_threads / square_lanes;

// One sum per group of lanes.
struct GroupSums {
  std::int64_t words[groups][exact_state_count];
};

GPU_KERNEL(square_threads)
add_squares_kernel(std::int64_t* total, const float* x, std::int64_t count, std::int64_t block,
                   bool aligned) {
  auto& shared = shared_memory<GroupSums>();
  const int group = static_cast<int>(thread_index()) / square_lanes;
  const int member = static_cast<int>(thread_index()) % square_lanes;
  for (int w = member; w < exact_state_count; w += square_lanes) shared.words[group][w] = 0;
  sync_wave();
  const std::int64_t step = std::int64_t{grid_size().x} * groups * block;
  // All lanes of a wave run the same number of iterations.
  for (std::int64_t first = std::int64_t{block_index().x} * groups * block; first < count;
       first += step) {
    const std::int64_t begin = first + group * block;
    const std::int64_t end = begin + block < count ? begin + block : count;
    const Columns at = columns_at(begin + 8 * member, end, aligned);
    const Eight values = load(x, at);
    double sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const double value = values.v[i];
      sum += value * value;
    }
#pragma unroll
    for (int mask = square_lanes / 2; mask > 0; mask >>= 1) sum += shuffle_xor(sum, mask);
    if (member == 0 && sum != 0) {
      const ExactSplit split = split_exactly(sum);
      for (int i = 0; i < 3; ++i) {
        if (split.words[i] != 0) shared.words[group][split.first + i] += split.words[i];
      }
      shared.words[group][ExactSum::word_count] += 1;
    }
  }
  sync_block();
  for (int w = static_cast<int>(thread_index()); w < exact_state_count; w += square_threads) {
    std::int64_t sum = 0;
    for (int g = 0; g < groups; ++g) sum += shared.words[g][w];
    if (sum != 0) atomic_add(total + w, sum);
  }
}

void add_squares(Queue& queue, ExactSum* total, const float* x, std::int64_t count,
                 std::int64_t block) {
  // Uses fewer blocks than over(), since each ends with a sum over its groups.
  const std::int64_t blocks = (count + groups * block - 1) / (groups * block);
  launch(queue, one_block_each(blocks < 1024 ? blocks : 1024, square_threads), add_squares_kernel,
         state_of(total), x, count, block, block % 8 == 0 && rows_are_aligned(8, x));
}

constexpr int loss_threads = 256, losses_each = 16;

GPU_KERNEL(loss_threads)
add_losses_kernel(std::int64_t* total, std::int64_t* total_weight, const float* losses,
                  const float* weights, std::int64_t count) {
  double loss = 0, weight_sum = 0;
  std::int64_t i = std::int64_t{block_index().x} * loss_threads * losses_each + thread_index();
  for (int n = 0; n < losses_each && i < count; ++n, i += loss_threads) {
    const double weight = weights ? weights[i] : 1;
    if (weight == 0) continue;
    loss += weight * static_cast<double>(losses[i]);
    weight_sum += weight;
  }
  loss = block_sum<loss_threads>(loss);
  weight_sum = block_sum<loss_threads>(weight_sum);
  if (thread_index() != 0) return;
  add_term(total, loss);
  add_term(total_weight, weight_sum);
}

void add_losses(Queue& queue, ExactSum* total, ExactSum* total_weight, const float* losses,
                const float* weights, std::int64_t count) {
  constexpr std::int64_t each = loss_threads * losses_each;
  launch(queue, one_block_each((count + each - 1) / each, loss_threads), add_losses_kernel,
         state_of(total), state_of(total_weight), losses, weights, count);
}

}  // namespace

template <class T>
void set_totals(Kernels<T>& table) {
  table.add_squares = add_squares;
  table.add_losses = add_losses;
}
TRIREME_GPU_INSTANTIATE(set_totals);

}  // namespace trireme::gpu
