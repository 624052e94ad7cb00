// Rounds of two parallel loops: pack a part of B, then run tasks against it.
#include "backend/cpu/gemm_avx2.h"

#include <memory>

#include "backend/cpu/gemm_avx2_block.h"
#include "base/error.h"
#include "base/portable_math.h"
#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

// Packed columns of B take 8 MB at most: they stay in the last-level cache.
constexpr std::int64_t most_round_cols = 1024, most_round_k = 2048;

float* packed_a_of_thread() {
  struct alignas(64) PackedA {
    float values[avx2::most_packed_a];
  };
  thread_local const std::unique_ptr<PackedA> memory(new PackedA);
  return memory->values;
}

std::vector<std::int64_t> begins_of_k_blocks(const GemmProblem& p) {
  std::vector<std::int64_t> begins{0};
  while (begins.back() < p.k)
    begins.push_back(begins.back() + next_k_block(p.k - begins.back(), k_block_limit(p)));
  return begins;
}

}  // namespace

template <class T>
Avx2Gemm<T>::Avx2Gemm(const GemmProblem& problem)
    : problem_(problem),
      rows_(choose_tiling(problem).rows),
      k_begins_(begins_of_k_blocks(problem)),
      spans_{static_cast<std::int64_t>(k_begins_.size()) - 1,
             avx2::most_span / k_block_limit(problem)} {
  TRIREME_CHECK(has_known_order(problem) || math::is_portable());
}

template <class T>
std::int64_t Avx2Gemm<T>::begin_of_span(std::int64_t span) const {
  return k_begins_[std::min(spans_.begin(span), spans_.size)];
}

template <class T>
std::int64_t Avx2Gemm<T>::workspace_bytes(const GemmProblem& p) {
  return std::min(round_up(p.n, panel_cols), most_round_cols) * std::min(p.k, most_round_k) *
         static_cast<std::int64_t>(sizeof(float));
}

// Wide tasks pack rows of A less often; several tasks per thread balance the load.
template <class T>
Cut Avx2Gemm<T>::cut_columns(std::int64_t cols) const {
  constexpr std::int64_t tasks_per_thread = 4, least_work = 1 << 21;  // multiplications of a task
  const std::int64_t threads = ThreadPool::global().size();
  const std::int64_t wanted =
      threads == 1 ? 1 : ceil_div(tasks_per_thread * threads, rows_.count());
  const std::int64_t parts = std::min(wanted, rows_.piece * cols * problem_.k / least_work);
  return {cols, round_up(ceil_div(cols, std::max<std::int64_t>(1, parts)), panel_cols)};
}

template <class T>
void Avx2Gemm<T>::pack_columns(float* dst, const T* b, const Round& round) const {
  constexpr std::int64_t cols_per_task = 8 * panel_cols;
  const std::int64_t cols = round.cols.size, padded = round_up(cols, panel_cols);
  const std::int64_t parts = ceil_div(cols, cols_per_task);
  const bool k_contiguous = problem_.b_transposed;
  parallel_for(parts * (round.end_span - round.first_span), [&](std::int64_t task) {
    const std::int64_t span = round.first_span + task / parts, length = length_of_span(span);
    const std::int64_t k = begin_of_span(span), done = k - begin_of_span(round.first_span);
    const std::int64_t begin = task % parts * cols_per_task, col = round.origin + begin;
    avx2::pack_b<T>(dst + done * padded + begin * length,
                    {b + (k_contiguous ? col * problem_.ldb + k : k * problem_.ldb + col),
                     problem_.ldb, k_contiguous, std::min(cols_per_task, cols - begin), length});
  });
}

template <class T>
void Avx2Gemm<T>::run_task(const Round& round, std::int64_t row_tile, std::int64_t col_task,
                           float* c, const T* a, const T* bias, bool accumulate) const {
  const GemmProblem& p = problem_;
  const std::int64_t padded = round_up(round.cols.size, panel_cols);
  const std::int64_t begin = round.cols.begin(col_task), col = round.origin + begin;
  const std::int64_t row = rows_.begin(row_tile);
  float* const packed_a = packed_a_of_thread();
  avx2::Block block{.a = packed_a,
                    .a_by_rows = !p.a_transposed,
                    .b = nullptr,
                    .b_transposed = p.b_transposed,
                    .rows = rows_.length(row_tile),
                    .cols = round.cols.length(col_task),
                    .k_begins = nullptr,
                    .k_blocks = 0,
                    .c = c + row * p.ldc + col,
                    .ldc = p.ldc,
                    .accumulate = accumulate || bias};
  if constexpr (std::is_same_v<T, float>) {
    if (bias) start_with_bias(block.c, block.rows, block.cols, p.ldc, bias + col, accumulate);
  }
  for (std::int64_t span = round.first_span; span < round.end_span; ++span) {
    const std::int64_t k = begin_of_span(span), done = k - begin_of_span(round.first_span);
    avx2::pack_a<T>(packed_a,
                    {a + (p.a_transposed ? k * p.lda + row : row * p.lda + k), p.lda,
                     !p.a_transposed, block.rows, length_of_span(span)},
                    p.b_transposed, p.m - row);
    block.b = round.packed + done * padded + begin * length_of_span(span);
    block.k_begins = k_begins_.data() + spans_.begin(span);
    block.k_blocks = spans_.length(span);
    avx2::multiply(block);
    block.accumulate = true;
  }
}

template <class T>
void Avx2Gemm<T>::run_tasks(const Round& round, float* c, const T* a, const T* bias,
                            bool accumulate) const {
  const std::int64_t cols = round.cols.count();
  parallel_for(rows_.count() * cols, [&](std::int64_t task) {
    run_task(round, task / cols, task % cols, c, a, bias, accumulate);
  });
}

template <class T>
std::int64_t Avx2Gemm<T>::spans_per_round() const {
  return most_round_k / (spans_.piece * k_block_limit(problem_));
}

template <class T>
auto Avx2Gemm<T>::round_at(std::int64_t col, std::int64_t span, const float* packed) const
    -> Round {
  return {cut_columns(std::min(most_round_cols, problem_.n - col)), col, span,
          std::min(span + spans_per_round(), spans_.count()), packed};
}

template <class T>
bool Avx2Gemm<T>::packs_once() const {
  return problem_.n <= most_round_cols && spans_.count() <= spans_per_round();
}

template <class T>
void Avx2Gemm<T>::run(void* c, const T* a, const T* b, const T* bias, bool accumulate,
                      void* workspace) const {
  float* const packed = static_cast<float*>(workspace);
  for (std::int64_t col = 0; col < problem_.n; col += most_round_cols) {
    for (std::int64_t span = 0; span < spans_.count(); span += spans_per_round()) {
      const Round round = round_at(col, span, packed);
      pack_columns(packed, b, round);
      run_tasks(round, static_cast<float*>(c), a, span == 0 ? bias : nullptr,
                accumulate || span > 0);
    }
  }
}

template <class T>
void Avx2Gemm<T>::run_again(void* c, const T* a, bool accumulate, void* workspace) const {
  TRIREME_CHECK(packs_once());
  run_tasks(round_at(0, 0, static_cast<const float*>(workspace)), static_cast<float*>(c), a,
            nullptr, accumulate);
}

template class Avx2Gemm<float>;
template class Avx2Gemm<bf16>;
template class Avx2Gemm<f16>;

}  // namespace trireme::cpu
