// oneDNN's primitives are made for one thread and a fixed tile, so that results follow the shape
// only.
#include "backend/cpu/gemm_dnnl.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <dnnl.hpp>
#include <memory>
#include <new>
#include <unordered_map>
#include <utility>

#include "backend/cpu/isa.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

using Memory = dnnl::memory;

// Each thread has its own setting; without it oneDNN would start OpenMP's threads next to ours.
void use_one_openmp_thread() {
  thread_local const bool done = [] {
    omp_set_num_threads(1);
    return true;
  }();
  (void)done;
}

// oneDNN chooses its kernels by itself; it may use no more than isa() says.
dnnl::engine& engine() {
  static dnnl::engine instance = [] {
    const auto limit = isa() == Isa::avx2     ? dnnl::cpu_isa::avx2
                       : isa() == Isa::avx512 ? dnnl::cpu_isa::avx512_core_bf16
                                              : dnnl::cpu_isa::all;
    dnnl::set_max_cpu_isa(limit);  // refused if oneDNN was used before, which nothing else does
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return instance;
}

template <class T>
constexpr Memory::data_type type_of =
    std::is_same_v<T, bf16> ? Memory::data_type::bf16 : Memory::data_type::f32;

// A cut of [0, size) into pieces of `piece`, the last one smaller.
struct Cut {
  std::int64_t size, piece;
  std::int64_t count() const { return ceil_div(size, piece); }
  std::int64_t begin(std::int64_t i) const { return i * piece; }
  std::int64_t length(std::int64_t i) const { return std::min(piece, size - begin(i)); }
  std::int64_t end(std::int64_t i) const { return begin(i) + length(i); }
  bool is_last(std::int64_t i) const { return i + 1 == count(); }
};

// Pieces of about equal length, at most `most`, in multiples of 32.
Cut cut_evenly(std::int64_t size, std::int64_t most) {
  return {size, std::min(size, round_up(ceil_div(size, ceil_div(size, most)), 32))};
}

struct Tiling {
  Cut rows, cols;
};

// Large tiles suit oneDNN best, but there should be enough of them for the threads; below a few
// million multiplications a tile is not worth handing out.
Tiling choose_tiling(const GemmProblem& p) {
  constexpr std::int64_t wanted_tiles = 16, least_work = 1 << 21;
  std::int64_t rows = 256, cols = 384;
  for (;;) {
    const Tiling tiling{cut_evenly(p.m, rows), cut_evenly(p.n, cols)};
    const auto [r, c] = std::pair(tiling.rows.piece, tiling.cols.piece);
    const bool enough = tiling.rows.count() * tiling.cols.count() >= wanted_tiles;
    if (enough || r * c * p.k <= least_work || std::max(r, c) <= 32) return tiling;
    (r >= c ? rows : cols) = std::max(r, c) / 2;
  }
}

// How an operand whose stored rows run along m or n comes to the tiles: from where it lies, or
// panel by panel from a copy. A panel is as many tiles wide as fit into `limit` elements.
struct Panels {
  bool copied = false;
  std::int64_t tiles = 0;  // of a panel
  std::int64_t pitch = 0;  // elements between rows of the copy

  Panels() = default;
  Panels(const Cut& cut, std::int64_t k, std::int64_t ld, bool copies, std::int64_t limit)
      : tiles(cut.count()) {
    copied = copies && rows_collide(ld);
    if (!copied) return;
    tiles = std::clamp<std::int64_t>(limit / (k * cut.piece), 1, cut.count());
    pitch = spread_rows(std::min(cut.size, tiles * cut.piece));
  }
  std::int64_t floats(std::int64_t k) const { return round_up(k * pitch, 16); }
};

struct PanelsOfBoth {
  Panels a, b;

  PanelsOfBoth() = default;
  PanelsOfBoth(const GemmProblem& p, const Tiling& tiling, bool copies, std::int64_t limit)
      : a(tiling.rows, p.k, p.lda, copies && p.a_transposed, limit),
        b(tiling.cols, p.k, p.ldb, copies && !p.b_transposed, limit) {}
};

template <class T>
bool copies_panels(Isa set) {
  return std::is_same_v<T, float> && set == Isa::avx2;
}

// Columns [begin, end) of k rows.
template <class T>
void copy_panel(T* dst, std::int64_t pitch, const T* src, std::int64_t ld, std::int64_t k,
                std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t rows_per_task = 32;
  parallel_ranges(k, rows_per_task, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row)
      std::copy(src + row * ld + begin, src + row * ld + end, dst + row * pitch);
  });
}

// Scratch of this thread, which oneDNN wants for products of a few dozen rows and columns: some ten
// kilobytes. It depends on oneDNN's version and kernel, so that no plan could know it.
char* thread_scratch(std::int64_t bytes) {
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  constexpr std::size_t alignment = 64;
  thread_local std::unique_ptr<char, Free> memory;
  thread_local std::int64_t size = 0;
  if (size < bytes) {
    memory.reset(static_cast<char*>(std::aligned_alloc(alignment, round_up(bytes, alignment))));
    if (!memory) throw std::bad_alloc();
    size = bytes;
  }
  return memory.get();
}

// A bias is put into C beforehand and the product added: oneDNN itself would keep the product of
// each tile in scratch memory first.
template <class T>
void start_with_bias(T* c, std::int64_t rows, std::int64_t cols, std::int64_t ld, const T* bias,
                     bool accumulate) {
  for (std::int64_t i = 0; i < rows; ++i, c += ld) {
    if (!accumulate) {
      std::copy_n(bias, cols, c);
    } else {
      for (std::int64_t j = 0; j < cols; ++j) {
        c[j] = T(static_cast<float>(c[j]) + static_cast<float>(bias[j]));
      }
    }
  }
}

}  // namespace

template <class T, class C>
struct DnnlGemm<T, C>::Impl {
  GemmProblem problem;
  Cut rows, cols;
  PanelsOfBoth panels;
  // Interior tiles and the last of each direction may differ in size. Indexed by [last row of
  // tiles][last column of tiles][accumulate].
  std::array<std::array<std::array<dnnl::matmul, 2>, 2>, 2> primitives;
  std::array<std::array<Memory::desc, 2>, 2> a_desc, b_desc, c_desc;
  std::int64_t scratch_bytes = 0;  // of one tile

  // Where the operands lie: whole, or the panels that begin with row or column `origin` of C.
  struct Sources {
    const T *a, *b;
    std::int64_t a_origin = 0, b_origin = 0;
  };

  void make(bool last_row, bool last_col);
  void run_tile(std::int64_t row, std::int64_t col, C* c, const Sources& from, const T* bias,
                bool accumulate) const;
};

template <class T, class C>
void DnnlGemm<T, C>::Impl::make(bool last_row, bool last_col) {
  const GemmProblem& p = problem;
  const std::int64_t m = rows.length(last_row ? rows.count() - 1 : 0);
  const std::int64_t n = cols.length(last_col ? cols.count() - 1 : 0);
  using Dims = Memory::dims;
  const auto plain = [](std::int64_t ld) { return Dims{ld, 1}; };
  const auto transposed = [](std::int64_t ld) { return Dims{1, ld}; };
  auto& a = a_desc[last_row][last_col];
  auto& b = b_desc[last_row][last_col];
  auto& c = c_desc[last_row][last_col];
  const std::int64_t lda = panels.a.copied ? panels.a.pitch : p.lda;
  const std::int64_t ldb = panels.b.copied ? panels.b.pitch : p.ldb;
  a = {{m, p.k}, type_of<T>, p.a_transposed ? transposed(lda) : plain(lda)};
  b = {{p.k, n}, type_of<T>, p.b_transposed ? transposed(ldb) : plain(ldb)};
  c = {{m, n}, type_of<C>, plain(p.ldc)};
  for (const bool accumulate : {false, true}) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (accumulate) {
      dnnl::post_ops add;
      add.append_sum(1.0F);
      attributes.set_post_ops(add);
    }
    const dnnl::matmul::primitive_desc chosen({a, b, c}, attributes, engine());
    primitives[last_row][last_col][accumulate] = dnnl::matmul(chosen);
    scratch_bytes =
        std::max(scratch_bytes, static_cast<std::int64_t>(chosen.scratchpad_desc().get_size()));
  }
}

template <class T, class C>
std::int64_t DnnlGemm<T, C>::workspace_bytes(const GemmProblem& problem, Isa set,
                                             std::int64_t limit) {
  const PanelsOfBoth panels(problem, choose_tiling(problem), copies_panels<T>(set), limit);
  return (panels.a.floats(problem.k) + panels.b.floats(problem.k)) *
         static_cast<std::int64_t>(sizeof(T));
}

template <class T, class C>
DnnlGemm<T, C>::DnnlGemm(const GemmProblem& problem, Isa set, std::int64_t limit)
    : impl_(std::make_unique<Impl>()) {
  const Tiling tiling = choose_tiling(problem);
  impl_->problem = problem;
  impl_->panels = PanelsOfBoth(problem, tiling, copies_panels<T>(set), limit);
  impl_->rows = tiling.rows;
  impl_->cols = tiling.cols;
  use_one_openmp_thread();
  for (const bool last_row : {false, true}) {
    if (!last_row && tiling.rows.count() == 1) continue;
    for (const bool last_col : {false, true}) {
      if (last_col || tiling.cols.count() > 1) impl_->make(last_row, last_col);
    }
  }
}

template <class T, class C>
DnnlGemm<T, C>::~DnnlGemm() = default;

template <class T, class C>
void DnnlGemm<T, C>::Impl::run_tile(std::int64_t row, std::int64_t col, C* c, const Sources& from,
                                    const T* bias, bool accumulate) const {
  const bool last_row = rows.is_last(row), last_col = cols.is_last(col);
  const std::int64_t m = rows.begin(row), n = cols.begin(col);
  const auto wrap = [](const Memory::desc& desc, const void* data) {
    return Memory(desc, engine(), const_cast<void*>(data));
  };
  const T* a_tile = from.a + (problem.a_transposed ? m - from.a_origin : m * problem.lda);
  const T* b_tile = from.b + (problem.b_transposed ? n * problem.ldb : n - from.b_origin);
  C* c_tile = c + m * problem.ldc + n;
  if constexpr (std::is_same_v<C, T>) {
    if (bias) {
      start_with_bias(c_tile, rows.length(row), cols.length(col), problem.ldc, bias + n,
                      accumulate);
      accumulate = true;
    }
  }
  const dnnl::matmul& primitive = primitives[last_row][last_col][accumulate];
  std::unordered_map<int, Memory> arguments{
      {DNNL_ARG_SRC, wrap(a_desc[last_row][last_col], a_tile)},
      {DNNL_ARG_WEIGHTS, wrap(b_desc[last_row][last_col], b_tile)},
      {DNNL_ARG_DST, wrap(c_desc[last_row][last_col], c_tile)}};
  const Memory::desc scratchpad({scratch_bytes}, Memory::data_type::u8, Memory::dims{1});
  if (scratch_bytes > 0)
    arguments.emplace(DNNL_ARG_SCRATCHPAD, wrap(scratchpad, thread_scratch(scratch_bytes)));
  thread_local dnnl::stream stream(engine());
  primitive.execute(stream, arguments);
}

template <class T, class C>
void DnnlGemm<T, C>::run(void* c, const T* a, const T* b, const T* bias, bool accumulate,
                         void* workspace) const {
  const GemmProblem& problem = impl_->problem;
  const Cut &rows = impl_->rows, &cols = impl_->cols;
  const PanelsOfBoth& panels = impl_->panels;
  T* const a_panel = static_cast<T*>(workspace);
  T* const b_panel = a_panel + panels.a.floats(problem.k);
  typename Impl::Sources from{a, b};
  for (std::int64_t col = 0; col < cols.count(); col += panels.b.tiles) {
    const std::int64_t end_col = std::min(col + panels.b.tiles, cols.count());
    if (panels.b.copied) {
      from.b = b_panel;
      from.b_origin = cols.begin(col);
      copy_panel(b_panel, panels.b.pitch, b, problem.ldb, problem.k, cols.begin(col),
                 cols.end(end_col - 1));
    }
    for (std::int64_t row = 0; row < rows.count(); row += panels.a.tiles) {
      const std::int64_t end_row = std::min(row + panels.a.tiles, rows.count());
      const bool is_there = col > 0 && panels.a.tiles == rows.count();
      if (panels.a.copied && !is_there) {
        from.a = a_panel;
        from.a_origin = rows.begin(row);
        copy_panel(a_panel, panels.a.pitch, a, problem.lda, problem.k, rows.begin(row),
                   rows.end(end_row - 1));
      }
      const std::int64_t width = end_col - col;
      parallel_for((end_row - row) * width, [&](std::int64_t tile) {
        use_one_openmp_thread();
        impl_->run_tile(row + tile / width, col + tile % width, static_cast<C*>(c), from, bias,
                        accumulate);
      });
    }
  }
}

template class DnnlGemm<float, float>;
template class DnnlGemm<bf16, bf16>;
template class DnnlGemm<bf16, float>;

}  // namespace trireme::cpu
