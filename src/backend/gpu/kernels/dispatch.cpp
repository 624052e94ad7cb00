// Counting sort of all choices by expert and, within an expert, by row, in chunks of choices. The
// place of a choice is its expert's first place plus the number of earlier choices of the expert,
// in earlier chunks and its own. Counts are integers, so the order of blocks is irrelevant.
#include "backend/gpu/kernels/block_prefix.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"
#include "backend/gpu/row_chunks.h"

namespace trireme::gpu {
namespace {

constexpr int threads = 256;

struct Choices {
  const std::int32_t* chosen;
  std::int32_t *places, *offsets;
  std::int32_t* counts;  // [chunks, experts]; later the first place of a chunk's choices
  std::int64_t block_choices, chunks_per_block, chunks;
  int experts, blocks;
  bool drops;

  GPU_FN std::int64_t first_of(std::int64_t chunk) const {
    return chunk / chunks_per_block * block_choices + chunk % chunks_per_block * dispatch_chunk;
  }
  GPU_FN int size_of(std::int64_t chunk) const {
    const std::int64_t left = block_choices - chunk % chunks_per_block * dispatch_chunk;
    return static_cast<int>(left < dispatch_chunk ? left : dispatch_chunk);
  }
  // Expert of a choice; -1 if it was dropped.
  GPU_FN std::int32_t expert_of(std::int64_t choice) const {
    return drops && places[choice] < 0 ? -1 : chosen[choice];
  }
};

// One block per chunk.
GPU_KERNEL(threads)
count_choices_kernel(const Choices c) {
  auto* const counts = dynamic_shared_memory<std::int32_t>();
  for (int e = static_cast<int>(thread_index()); e < c.experts; e += threads) counts[e] = 0;
  sync_block();
  const std::int64_t chunk = block_index().x, first = c.first_of(chunk);
  for (int i = static_cast<int>(thread_index()); i < c.size_of(chunk); i += threads) {
    const std::int32_t expert = c.expert_of(first + i);
    if (expert >= 0) atomic_add(counts + expert, 1);
  }
  sync_block();
  for (int e = static_cast<int>(thread_index()); e < c.experts; e += threads)
    c.counts[chunk * c.experts + e] = counts[e];
}

// Converts counts to places. Runs as one block.
GPU_KERNEL(threads)
place_experts_kernel(const Choices c) {
  std::int32_t carry = 0;
  for (int first = 0; first < c.experts; first += threads) {
    const int e = first + static_cast<int>(thread_index());
    std::int32_t total = 0;
    for (std::int64_t chunk = 0; chunk < c.chunks && e < c.experts; ++chunk)
      total += c.counts[chunk * c.experts + e];
    const Prefix prefix = block_prefix<threads>(total);
    std::int32_t next = carry + prefix.before;
    for (std::int64_t chunk = 0; chunk < c.chunks && e < c.experts; ++chunk) {
      if (chunk % c.chunks_per_block == 0)
        c.offsets[std::int64_t{e} * c.blocks + chunk / c.chunks_per_block] = next;
      std::int32_t& count = c.counts[chunk * c.experts + e];
      const std::int32_t begin = next;
      next += count;
      count = begin;
    }
    carry += prefix.all;
  }
  if (thread_index() == 0) c.offsets[std::int64_t{c.experts} * c.blocks] = carry;
}

struct ChunkExperts {
  std::int32_t of[dispatch_chunk];
};

// One block per chunk.
GPU_KERNEL(threads)
place_choices_kernel(const Choices c) {
  auto& experts = shared_memory<ChunkExperts>();
  const std::int64_t chunk = block_index().x, first = c.first_of(chunk);
  const int size = c.size_of(chunk);
  for (int i = static_cast<int>(thread_index()); i < size; i += threads)
    experts.of[i] = c.expert_of(first + i);
  sync_block();
  for (int i = static_cast<int>(thread_index()); i < size; i += threads) {
    const std::int32_t expert = experts.of[i];
    if (expert < 0) continue;
    std::int32_t earlier = 0;
#pragma unroll 8
    for (int j = 0; j < i; ++j) earlier += experts.of[j] == expert ? 1 : 0;
    c.places[first + i] = c.counts[chunk * c.experts + expert] + earlier;
  }
}

// --- capacity ---

struct Candidates {
  std::int32_t experts[threads];
  float weights[threads];
};

// Sets places to -1 if the expert is full within the unit, else to 0: each choice counts the
// preferred choices of its unit and expert. Blocks x share unit y.
GPU_KERNEL(threads)
drop_choices_kernel(std::int32_t* places, const std::int32_t* chosen, const float* weights,
                    std::int64_t unit_choices, std::int64_t capacity, bool by_weight) {
  const std::int64_t first = std::int64_t{block_index().y} * unit_choices;
  const std::int64_t mine = std::int64_t{block_index().x} * threads + thread_index();
  const bool exists = mine < unit_choices;
  const std::int32_t expert = exists ? chosen[first + mine] : -1;
  const float weight = exists && by_weight ? weights[first + mine] : 0.0f;
  auto& others = shared_memory<Candidates>();
  std::int64_t before = 0;
  for (std::int64_t tile = 0; tile < unit_choices; tile += threads) {
    const std::int64_t other = tile + thread_index();
    others.experts[thread_index()] = other < unit_choices ? chosen[first + other] : -1;
    others.weights[thread_index()] =
        by_weight && other < unit_choices ? weights[first + other] : 0.0f;
    sync_block();
    for (int i = 0; i < threads; ++i) {
      if (others.experts[i] != expert) continue;
      const bool comes_first = tile + i < mine;
      const float w = others.weights[i];
      before += w > weight || (w == weight && comes_first) ? 1 : 0;
    }
    sync_block();  // the candidates are about to be replaced
  }
  if (exists) places[first + mine] = before < capacity ? 0 : -1;
}

void dispatch(Queue& queue, const DispatchShape& shape, std::int32_t* places, std::int32_t* offsets,
              const std::int32_t* chosen, const float* weights, std::int32_t* workspace) {
  const bool drops = shape.capacity > 0;
  if (drops) {
    const std::int64_t unit_choices = shape.unit_rows * shape.top_k;
    launch(queue,
           {.blocks = Size{static_cast<unsigned>((unit_choices + threads - 1) / threads),
                           static_cast<unsigned>(shape.rows / shape.unit_rows)},
            .threads = threads},
           drop_choices_kernel, places, chosen, weights, unit_choices, shape.capacity,
           shape.by_weight);
  }
  const DispatchChunks chunks = dispatch_chunks(shape.rows * shape.top_k, shape.blocks);
  const Choices c{chosen,
                  places,
                  offsets,
                  workspace,
                  chunks.block_choices,
                  chunks.per_block,
                  chunks.per_block * shape.blocks,
                  static_cast<int>(shape.experts),
                  static_cast<int>(shape.blocks),
                  drops};
  Launch each = one_block_each(c.chunks, threads);
  each.shared_bytes = static_cast<std::size_t>(shape.experts) * sizeof(std::int32_t);
  launch(queue, each, count_choices_kernel, c);
  launch(queue, one_block_each(1, threads), place_experts_kernel, c);
  launch(queue, one_block_each(c.chunks, threads), place_choices_kernel, c);
}

}  // namespace

template <class T>
void set_dispatch(Kernels<T>& table) {
  table.dispatch = dispatch;
}
TRIREME_GPU_INSTANTIATE(set_dispatch);

}  // namespace trireme::gpu
