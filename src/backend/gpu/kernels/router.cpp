// Products of a router. Both gradients are weighted sums of rows: a block computes a few of these
// sums at a time, which share the rows it reads.
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"
#include "backend/gpu/product.h"

namespace trireme::gpu {
namespace {

template <class T>
GPU_KERNEL(256)
add_router_bias_kernel(float* logits, const T* bias, std::int64_t count, std::int64_t experts) {
  for_each(count, [=](std::int64_t i) { logits[i] += to_float(bias[i % experts]); });
}

template <class T>
void router(Queue& queue, float* logits, const T* x, const T* weight, const T* bias,
            std::int64_t rows, std::int64_t cols, std::int64_t experts) {
  multiply_to_float(queue, logits, x, weight, rows, experts, cols);
  if (!bias) return;
  launch(queue, over(rows * experts), add_router_bias_kernel<T>, logits, bias, rows * experts,
         experts);
}

// Sums that a block computes at a time.
constexpr int shared_sums = 4;

unsigned tiles_of(std::int64_t count, std::int64_t each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

// Factors of the terms in each of these sums.
struct Factors {
  const float* dlogits;  // of the first sum and term
  std::int64_t sum_pitch, term_pitch;
  std::int64_t sums;  // number of existing sums, from the first on

  GPU_FN float of(int sum, std::int64_t term) const {
    return sum < sums ? dlogits[sum * sum_pitch + term * term_pitch] : 0.0f;
  }
};

// Adds eight columns of the terms `first`, first + step and so on, in that order.
template <class T>
GPU_FN void add_terms(Eight (&sums)[shared_sums], const Factors& factors, const T* terms,
                      std::int64_t cols, const Columns& at, std::int64_t first, std::int64_t end,
                      std::int64_t step) {
#pragma unroll
  for (int s = 0; s < shared_sums; ++s) sums[s] = zeros();
#pragma unroll 4
  for (std::int64_t term = first; term < end; term += step) {
    const Eight row = load(terms + term * cols, at);
#pragma unroll
    for (int s = 0; s < shared_sums; ++s) {
      const float factor = factors.of(s, term);
      sums[s] = each([=](float sum, float v) { return sum + factor * v; }, sums[s], row);
    }
  }
}

// --- gradient of x: the sums are rows, the terms experts in order ---

constexpr int threads = 128;

// One block per `shared_sums` rows and 8 * threads columns.
template <class T>
GPU_KERNEL(threads)
router_input_grad_kernel(T* dx, const T* dres, const float* dlogits, const T* weight,
                         std::int64_t rows, std::int64_t cols, std::int64_t experts, bool aligned) {
  const std::int64_t first = std::int64_t{block_index().x} * shared_sums;
  const std::int64_t column = 8 * (std::int64_t{block_index().y} * threads + thread_index());
  const Columns at = columns_at(column, cols, aligned);
  if (!at.any()) return;
  Eight sums[shared_sums];
  add_terms(sums, {dlogits + first * experts, experts, 1, rows - first}, weight, cols, at, 0,
            experts, 1);
#pragma unroll
  for (int s = 0; s < shared_sums; ++s) {
    if (first + s >= rows) break;
    const std::int64_t offset = (first + s) * cols;
    if (dres)
      sums[s] = each([](float sum, float v) { return sum + v; }, sums[s], load(dres + offset, at));
    store(dx + offset, at, sums[s]);
  }
}

template <class T>
void router_input_grad(Queue& queue, T* dx, const T* dres, const float* dlogits, const T* weight,
                       std::int64_t rows, std::int64_t cols, std::int64_t experts) {
  launch(queue,
         {.blocks = Size{tiles_of(rows, shared_sums), tiles_of(cols, 8 * threads)},
          .threads = threads},
         router_input_grad_kernel<T>, dx, dres, dlogits, weight, rows, cols, experts,
         rows_are_aligned(cols, dx, dres, weight));
}

// --- gradient of the weight: the sums are experts, the terms rows ---

// Few experts and columns have to fill a GPU, so a block takes only 64 columns. Each lane adds
// every 32nd row; then the lanes are added in order.
constexpr int columns_wide = 8, lanes = 32;

struct LaneSums {
  float of[lanes][8 * columns_wide];
};

// One block per `shared_sums` experts and 8 * columns_wide columns.
template <class T>
GPU_KERNEL(columns_wide* lanes)
router_weight_grad_kernel(float* dweight, bool accumulate, const float* dlogits, const T* x,
                          std::int64_t rows, std::int64_t cols, std::int64_t experts,
                          bool aligned) {
  const auto thread = static_cast<int>(thread_index());
  const int mine = thread / columns_wide, wide = thread % columns_wide;
  const std::int64_t first = std::int64_t{block_index().x} * shared_sums;
  const std::int64_t first_column = std::int64_t{block_index().y} * 8 * columns_wide;
  Eight sums[shared_sums];
  add_terms(sums, {dlogits + first, 1, experts, experts - first}, x, cols,
            columns_at(first_column + 8 * wide, cols, aligned), mine, rows, lanes);
  auto& shared = shared_memory<LaneSums>();
#pragma unroll
  for (int s = 0; s < shared_sums; ++s) {
#pragma unroll
    for (int i = 0; i < 8; ++i) shared.of[mine][8 * wide + i] = sums[s].v[i];
    sync_block();
    if (thread < 8 * columns_wide && first_column + thread < cols && first + s < experts) {
      float total = 0;
      for (int l = 0; l < lanes; ++l) total += shared.of[l][thread];
      float& sum = dweight[(first + s) * cols + first_column + thread];
      sum = accumulate ? sum + total : total;
    }
    sync_block();  // the memory is reused for the next sums
  }
}

template <class T>
void router_weight_grad(Queue& queue, float* dweight, bool accumulate, const float* dlogits,
                        const T* x, std::int64_t rows, std::int64_t cols, std::int64_t experts) {
  launch(queue,
         {.blocks = Size{tiles_of(experts, shared_sums), tiles_of(cols, 8 * columns_wide)},
          .threads = columns_wide * lanes},
         router_weight_grad_kernel<T>, dweight, accumulate, dlogits, x, rows, cols, experts,
         rows_are_aligned(cols, x));
}

}  // namespace

template <class T>
void set_router(Kernels<T>& table) {
  table.router = router<T>;
  table.router_input_grad = router_input_grad<T>;
  table.router_weight_grad = router_weight_grad<T>;
}
TRIREME_GPU_INSTANTIATE(set_router);

}  // namespace trireme::gpu
