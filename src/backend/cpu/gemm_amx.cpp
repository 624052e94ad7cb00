// Rounds of two parallel loops: pack a part of the outer operand, then run tasks against it.
#include "backend/cpu/gemm_amx.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

using amx::panel_vectors;
using amx::step_k;

// Packed outer operand of one round, in bytes: large enough that the inner one is rarely packed
// anew, small enough for the last-level cache.
constexpr std::int64_t max_packed_bytes = 16 << 20;

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};

// A thread's private memory, on large pages where the system has them.
char* thread_scratch() {
  constexpr std::size_t large_page = 2 << 20, bytes_kept = round_up(amx::scratch_bytes, large_page);
  thread_local const std::unique_ptr<char, Free> memory = [] {
    char* bytes = static_cast<char*>(std::aligned_alloc(large_page, bytes_kept));
    if (!bytes) throw std::bad_alloc();
    madvise(bytes, bytes_kept, MADV_HUGEPAGE);  // a wish; refusal only costs speed
    return std::unique_ptr<char, Free>(bytes);
  }();
  return memory.get();
}

std::int64_t panel_bytes(std::int64_t k) { return round_up(k, step_k) * panel_vectors * 2; }

// Pieces of one direction, in whole panels and of about equal length.
struct Cut {
  std::int64_t size, piece;
  Cut(std::int64_t length, std::int64_t most)
      : size(length), piece(round_up(ceil_div(length, ceil_div(length, most)), panel_vectors)) {}
  std::int64_t count() const { return ceil_div(size, piece); }
  amx::Range range(std::int64_t i) const { return {i * piece, std::min(size, (i + 1) * piece)}; }
};

struct Grid {
  Cut inner, outer;
  std::int64_t tasks() const { return inner.count() * outer.count(); }
};

// Large tasks reuse more of what they packed; several tasks per thread even out the load.
Grid choose_grid(std::int64_t inner, std::int64_t outer, std::int64_t k) {
  constexpr std::int64_t tasks_per_thread = 4;
  constexpr std::int64_t least_work = 1 << 22;  // multiplications; a few microseconds
  const std::int64_t threads = ThreadPool::global().size();
  std::int64_t most_inner = std::min<std::int64_t>(inner, 1024);
  std::int64_t most_outer = std::min(outer, amx::max_outer_vectors(k));
  for (;;) {
    const Grid grid{Cut(inner, most_inner), Cut(outer, most_outer)};
    const bool enough = threads == 1 || grid.tasks() >= tasks_per_thread * threads;
    const bool small = grid.inner.piece * grid.outer.piece * k <= least_work;
    if (enough || small) return grid;
    if (grid.inner.piece > 128 || grid.outer.piece <= 128) {
      if (grid.inner.piece <= panel_vectors) return grid;
      most_inner = grid.inner.piece / 2;
    } else {
      most_outer = grid.outer.piece / 2;
    }
  }
}

}  // namespace

AmxGemm::AmxGemm(const GemmProblem& problem, bool into_float)
    : problem_(problem),
      into_float_(into_float),
      outer_side_(problem.n <= problem.m ? amx::Side::b : amx::Side::a) {
  const std::int64_t vectors = std::min(problem.m, problem.n);
  const std::int64_t most = std::max(panel_vectors, max_packed_bytes / panel_bytes(problem.k) * panel_vectors);
  outer_vectors_ = Cut(vectors, most).piece;
}

std::int64_t AmxGemm::workspace_bytes() const {
  return outer_vectors_ / panel_vectors * panel_bytes(problem_.k);
}

amx::Operand AmxGemm::operand(amx::Side side, const bf16* a, const bf16* b) const {
  const GemmProblem& p = problem_;
  if (side == amx::Side::a) return {a, p.m, p.k, p.lda, !p.a_transposed, side};
  return {b, p.n, p.k, p.ldb, p.b_transposed, side};
}

void AmxGemm::pack_outer(char* packed, const amx::Operand& outer, amx::Range vectors) const {
  const Cut rows(vectors.length(), 128), cols(outer.k, 512);
  const std::int64_t bytes = panel_bytes(outer.k);
  parallel_for(rows.count() * cols.count(), [&](std::int64_t task) {
    const amx::Range piece = rows.range(task / cols.count()), k = cols.range(task % cols.count());
    char* dst = packed + piece.begin / panel_vectors * bytes + k.begin / step_k * amx::step_bytes;
    const amx::Range shifted{vectors.begin + piece.begin, vectors.begin + piece.end};
    amx::pack(dst, bytes, outer, shifted, k);
  });
}

// All of the inner operand against the outer vectors of `prototype`.
void AmxGemm::multiply(const amx::Task& prototype) const {
  const amx::Range outer = prototype.outer_vectors;
  const Grid grid = choose_grid(prototype.inner.vectors, outer.length(), problem_.k);
  parallel_for(grid.tasks(), [&](std::int64_t index) {
    amx::Task task = prototype;
    const amx::Range piece = grid.outer.range(index % grid.outer.count());
    task.inner_vectors = grid.inner.range(index / grid.outer.count());
    task.outer = prototype.outer + piece.begin / panel_vectors * panel_bytes(problem_.k);
    task.outer_vectors = {outer.begin + piece.begin, outer.begin + piece.end};
    task.scratch = thread_scratch();
    amx::run(task);
  });
}

void AmxGemm::run(void* c, const bf16* a, const bf16* b, const bf16* bias, bool accumulate,
                  void* workspace) const {
  const GemmProblem& p = problem_;
  const amx::Side inner_side = outer_side_ == amx::Side::a ? amx::Side::b : amx::Side::a;
  const amx::Operand outer = operand(outer_side_, a, b);
  char* packed = static_cast<char*>(workspace);
  // Results of this size leave the caches before anybody reads them; then reading the lines that
  // are to be overwritten would cost as much as all operands.
  const bool large = p.m * p.n * (into_float_ ? 4 : 2) > (4 << 20);
  const amx::Destination dst{c, p.ldc, p.m, p.n, into_float_, accumulate, large, bias};
  for (std::int64_t begin = 0; begin < outer.vectors; begin += outer_vectors_) {
    const amx::Range vectors{begin, std::min(begin + outer_vectors_, outer.vectors)};
    pack_outer(packed, outer, vectors);
    multiply({operand(inner_side, a, b), {}, packed, vectors, dst, nullptr});
  }
}

}  // namespace trireme::cpu
