// Rounds of two parallel loops: pack a part of the outer operand, then run tasks against it. Rounds
// depend on the shape only; the split into tasks does not affect results.
#include "backend/cpu/gemm_amx.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "backend/cpu/amx_code.h"
#include "backend/cpu/gemm_convert.h"
#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

using amx::panel_vectors;
using amx::step_k;

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};

// A thread's private memory, on huge pages if available.
char* thread_scratch() {
  constexpr std::size_t large_page = 2 << 20, bytes_kept = round_up(amx::scratch_bytes, large_page);
  thread_local const std::unique_ptr<char, Free> memory = [] {
    char* bytes = static_cast<char*>(std::aligned_alloc(large_page, bytes_kept));
    if (!bytes) throw std::bad_alloc();
    madvise(bytes, bytes_kept, MADV_HUGEPAGE);  // a hint; refusal only costs speed
    return std::unique_ptr<char, Free>(bytes);
  }();
  return memory.get();
}

std::int64_t panel_bytes(std::int64_t k) {
  return round_up(k, step_k) * panel_vectors * 2;
}

// Pieces along one direction, in whole panels (or steps of k) and of about equal length.
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

// Large tasks reuse more packed data; several tasks per thread balance the load.
Grid choose_grid(std::int64_t inner, std::int64_t outer, std::int64_t k) {
  constexpr std::int64_t tasks_per_thread = 4;
  constexpr std::int64_t least_work = 1 << 22;  // multiplications; a few microseconds
  const std::int64_t threads = ThreadPool::global().size();
  std::int64_t most_inner = std::min<std::int64_t>(inner, 1024);
  std::int64_t most_outer = std::min(outer, amx_code().max_outer_vectors(k));
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

// Packs outer vectors for all of the operand's k, using all threads if that is much work.
void pack_outer(char* packed, const amx::Operand& outer, amx::Range vectors) {
  constexpr std::int64_t most_vectors = 128, most_k = 512;
  const std::int64_t bytes = panel_bytes(outer.k);
  if (vectors.length() * outer.k <= most_vectors * most_k) {
    amx_code().pack(packed, bytes, outer, vectors, {0, outer.k});
    return;
  }
  const Cut rows(vectors.length(), most_vectors), cols(outer.k, most_k);
  parallel_for(rows.count() * cols.count(), [&](std::int64_t task) {
    const amx::Range piece = rows.range(task / cols.count()), k = cols.range(task % cols.count());
    char* dst = packed + piece.begin / panel_vectors * bytes + k.begin / step_k * amx::step_bytes;
    const amx::Range shifted{vectors.begin + piece.begin, vectors.begin + piece.end};
    amx_code().pack(dst, bytes, outer, shifted, k);
  });
}

// Multiplies the whole inner operand by the outer vectors of `prototype`.
void multiply(const amx::Task& prototype) {
  const amx::Range outer = prototype.outer_vectors;
  const std::int64_t k = prototype.inner.k;
  const Grid grid = choose_grid(prototype.inner.vectors, outer.length(), k);
  parallel_for(grid.tasks(), [&](std::int64_t index) {
    amx::Task task = prototype;
    const amx::Range piece = grid.outer.range(index % grid.outer.count());
    task.inner_vectors = grid.inner.range(index / grid.outer.count());
    task.outer = prototype.outer + piece.begin / panel_vectors * panel_bytes(k);
    task.outer_vectors = {outer.begin + piece.begin, outer.begin + piece.end};
    task.scratch = thread_scratch();
    amx_code().run(task);
  });
}

// Part of an operand within a range of k.
amx::Operand part_of(amx::Operand operand, amx::Range k) {
  operand.data += operand.k_contiguous ? k.begin : k.begin * operand.ld;
  operand.k = k.length();
  return operand;
}

}  // namespace

AmxGemm::AmxGemm(const GemmProblem& problem, bool into_float, std::int64_t max_packed_bytes)
    : problem_(problem),
      into_float_(into_float),
      outer_side_(problem.n <= problem.m ? amx::Side::b : amx::Side::a),
      outer_vectors_(std::min(problem.m, problem.n)),
      round_k_(problem.k) {
  if (outer_bytes() <= max_packed_bytes) return;
  const std::int64_t result_bytes =
      problem.m * problem.n * static_cast<std::int64_t>(sizeof(float));
  if (result_bytes <= max_packed_bytes / 2) {
    const std::int64_t steps =
        max_packed_bytes / panel_bytes(1) / ceil_div(outer_vectors_, panel_vectors);
    round_k_ = Cut(problem.k, std::max<std::int64_t>(1, steps) * step_k).piece;
    keeps_sums_ = !into_float;
  } else {
    const std::int64_t panels = max_packed_bytes / panel_bytes(problem.k);
    outer_vectors_ = Cut(outer_vectors_, std::max<std::int64_t>(1, panels) * panel_vectors).piece;
  }
}

std::int64_t AmxGemm::outer_bytes() const {
  return ceil_div(outer_vectors_, panel_vectors) * panel_bytes(round_k_);
}

std::int64_t AmxGemm::workspace_bytes() const {
  const std::int64_t sums = problem_.m * problem_.n * static_cast<std::int64_t>(sizeof(float));
  return outer_bytes() + (keeps_sums_ ? sums : 0);
}

// The packed operand grows with the rows until it is split into rounds, none of them larger than
// the limit except for a last panel or step; then sums may need space, half the limit at most.
std::int64_t AmxGemm::most_workspace(const GemmProblem& p, bool into_float) {
  constexpr std::int64_t limit = default_packed_bytes, alignment = 64;
  const std::int64_t panels = ceil_div(std::min(p.m, p.n), panel_vectors);
  const std::int64_t whole = panels * panel_bytes(p.k);
  if (whole <= limit) return whole + alignment;
  const std::int64_t rounding = std::max(panel_bytes(p.k), panels * panel_bytes(panel_vectors));
  return std::min(whole, limit + rounding) + (into_float ? 0 : limit / 2) + alignment;
}

amx::Operand AmxGemm::operand(amx::Side side, const bf16* a, const bf16* b) const {
  const GemmProblem& p = problem_;
  if (side == amx::Side::a) return {a, p.m, p.k, p.lda, !p.a_transposed, side};
  return {b, p.n, p.k, p.ldb, p.b_transposed, side};
}

void AmxGemm::run(void* c, const bf16* a, const bf16* b, const bf16* bias, bool accumulate,
                  void* workspace) const {
  const GemmProblem& p = problem_;
  char* packed = static_cast<char*>(workspace);
  // Results of this size leave the caches before they are read; reading the lines to be overwritten
  // would then cost as much as all operands.
  const bool large = p.m * p.n * (into_float_ ? 4 : 2) > (4 << 20);
  if (!keeps_sums_) {
    run_rounds({c, p.ldc, p.m, p.n, into_float_, accumulate, large, bias}, a, b, packed);
    return;
  }
  float* sums = reinterpret_cast<float*>(packed + outer_bytes());
  run_rounds({sums, p.n, p.m, p.n, true, false, false, nullptr}, a, b, packed);
  parallel_ranges(p.m, 32, [&](std::int64_t begin, std::int64_t end) {
    narrow(static_cast<bf16*>(c) + begin * p.ldc, sums + begin * p.n, end - begin, p.n, p.ldc, bias,
           accumulate);
  });
}

// Runs rounds over k or over outer vectors, whichever do not fit at once.
void AmxGemm::run_rounds(amx::Destination dst, const bf16* a, const bf16* b, char* packed) const {
  const amx::Operand outer = operand(outer_side_, a, b);
  const amx::Operand inner =
      operand(outer_side_ == amx::Side::a ? amx::Side::b : amx::Side::a, a, b);
  for (std::int64_t at = 0; at < problem_.k; at += round_k_) {
    const amx::Range k{at, std::min(problem_.k, at + round_k_)};
    for (std::int64_t v = 0; v < outer.vectors; v += outer_vectors_) {
      const amx::Range vectors{v, std::min(outer.vectors, v + outer_vectors_)};
      pack_outer(packed, part_of(outer, k), vectors);
      multiply({part_of(inner, k), {}, packed, vectors, dst, nullptr});
    }
    dst.accumulate = true;  // later chunks are added
  }
}

}  // namespace trireme::cpu
