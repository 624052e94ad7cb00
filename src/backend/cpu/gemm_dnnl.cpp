// oneDNN primitives are created for one thread and a fixed tile, so results
// depend on the shape only.
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

#include "backend/cpu/gemm_tiles.h"
#include "backend/cpu/isa.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

using Memory = dnnl::memory;

// The setting is per thread; without it oneDNN would start OpenMP threads besides ours.
void use_one_openmp_thread() {
  thread_local const bool done = [] {
    omp_set_num_threads(1);
    return true;
  }();
  (void)done;
}

// oneDNN selects its kernels itself; limit it to isa().
dnnl::engine& engine() {
  static dnnl::engine instance = [] {
    const auto limit = isa() == Isa::avx2     ? dnnl::cpu_isa::avx2
                       : isa() == Isa::avx512 ? dnnl::cpu_isa::avx512_core_bf16
                                              : dnnl::cpu_isa::all;
    dnnl::set_max_cpu_isa(limit);  // fails if oneDNN was used before, but no other code uses it
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return instance;
}

template <class T>
constexpr Memory::data_type type_of =
    std::is_same_v<T, bf16> ? Memory::data_type::bf16 : Memory::data_type::f32;

// This thread's scratch, about ten kilobytes, which oneDNN uses for products of a few dozen rows
// and columns. It depends on oneDNN's version and kernel, so plans cannot know it.
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

}  // namespace

void prepare_dnnl() {
  engine();
  use_one_openmp_thread();
}

template <class T, class C>
struct DnnlGemm<T, C>::Impl {
  GemmProblem problem;
  Cut rows, cols;
  // Interior tiles and the last one of each direction may have different sizes. Indexed by [last
  // row of tiles][last column of tiles][accumulate].
  std::array<std::array<std::array<dnnl::matmul, 2>, 2>, 2> primitives;
  std::array<std::array<Memory::desc, 2>, 2> a_desc, b_desc, c_desc;
  std::int64_t scratch_bytes = 0;  // per tile

  std::int64_t tiles() const { return rows.count() * cols.count(); }

  void make(bool last_row, bool last_col);
  void run_tile(std::int64_t tile, C* c, const T* a, const T* b, const T* bias,
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
  a = {{m, p.k}, type_of<T>, p.a_transposed ? transposed(p.lda) : plain(p.lda)};
  b = {{p.k, n}, type_of<T>, p.b_transposed ? transposed(p.ldb) : plain(p.ldb)};
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
DnnlGemm<T, C>::DnnlGemm(const GemmProblem& problem) : impl_(std::make_unique<Impl>()) {
  const Tiling tiling = choose_tiling(problem);
  impl_->problem = problem;
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
void DnnlGemm<T, C>::Impl::run_tile(std::int64_t tile, C* c, const T* a, const T* b, const T* bias,
                                    bool accumulate) const {
  const std::int64_t row = tile / cols.count(), col = tile % cols.count();
  const bool last_row = rows.is_last(row), last_col = cols.is_last(col);
  const std::int64_t m = rows.begin(row), n = cols.begin(col);
  const auto wrap = [](const Memory::desc& desc, const void* data) {
    return Memory(desc, engine(), const_cast<void*>(data));
  };
  const T* a_tile = a + (problem.a_transposed ? m : m * problem.lda);
  const T* b_tile = b + (problem.b_transposed ? n * problem.ldb : n);
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
                         void* /*workspace*/) const {
  parallel_for(impl_->tiles(), [&](std::int64_t tile) {
    use_one_openmp_thread();
    impl_->run_tile(tile, static_cast<C*>(c), a, b, bias, accumulate);
  });
}

template class DnnlGemm<float, float>;
template class DnnlGemm<bf16, bf16>;
template class DnnlGemm<bf16, float>;

}  // namespace trireme::cpu
