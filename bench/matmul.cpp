// The bf16 products of linear layers by our AMX kernels ("own"), next to oneDNN on the same
// threads: as the engine would use it (plain layouts, "tiles" of one thread each), and on its own
// with OpenMP's threads, once with plain layouts ("oneDNN") and once with weights that were
// converted to its preferred layout beforehand ("packed"). All in flop/s.
#include <omp.h>

#include <dnnl.hpp>
#include <unordered_map>

#include "backend/cpu/gemm_amx.h"
#include "backend/cpu/gemm_dnnl.h"
#include "backend/cpu/isa.h"
#include "bench.h"

namespace trireme::cpu {
namespace {

using Memory = dnnl::memory;

struct Operands {
  explicit Operands(const GemmProblem& p)
      : a(bench::random_values<bf16>(p.m * p.k)),
        b(bench::random_values<bf16>(p.k * p.n)),
        c(p.m * p.n) {}
  std::vector<bf16> a, b, c;
};

// oneDNN's own product with all threads.
class WholeProduct {
 public:
  WholeProduct(const GemmProblem& p, Operands& operands, bool packed_weights) {
    const auto desc = [](std::int64_t rows, std::int64_t cols, bool transposed, std::int64_t ld) {
      const Memory::dims strides = transposed ? Memory::dims{1, ld} : Memory::dims{ld, 1};
      return Memory::desc({rows, cols}, Memory::data_type::bf16, strides);
    };
    const Memory::desc a = desc(p.m, p.k, p.a_transposed, p.lda);
    const Memory::desc b = desc(p.k, p.n, p.b_transposed, p.ldb);
    const Memory::desc c = desc(p.m, p.n, false, p.ldc);
    const Memory::desc any({p.k, p.n}, Memory::data_type::bf16, Memory::format_tag::any);
    omp_set_num_threads(ThreadPool::global().size());
    const dnnl::matmul::primitive_desc chosen({a, packed_weights ? any : b, c}, engine_);
    product_ = dnnl::matmul(chosen);
    Memory weights(b, engine_, operands.b.data());
    if (packed_weights) {
      Memory packed(chosen.weights_desc(), engine_);
      dnnl::reorder(weights, packed).execute(stream_, weights, packed);
      stream_.wait();
      weights = packed;
    }
    arguments_ = {{DNNL_ARG_SRC, Memory(a, engine_, operands.a.data())},
                  {DNNL_ARG_WEIGHTS, weights},
                  {DNNL_ARG_DST, Memory(c, engine_, operands.c.data())}};
  }

  void run() {
    omp_set_num_threads(ThreadPool::global().size());
    product_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul product_;
  std::unordered_map<int, Memory> arguments_;
};

// Arguments: rows, in, out.
void products(benchmark::State& state, Product product) {
  if (isa() != Isa::amx) return state.SkipWithError("needs a processor with AMX");
  const GemmProblem p = problem_of(product, {state.range(0), state.range(1), state.range(2)});
  Operands operands(p);
  const AmxGemm own(p, false);
  const DnnlGemm<bf16, bf16> tiles(p);
  std::vector<char> workspace(own.workspace_bytes() + 64);
  char* aligned = workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64);
  WholeProduct plain(p, operands, false), packed(p, operands, true);
  const auto run = [&](const GemmEngine<bf16>& engine) {
    engine.run(operands.c.data(), operands.a.data(), operands.b.data(), nullptr, false, aligned);
  };
  const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n * p.k);
  bench::in_turns(state, {{"own", flops, [&] { run(own); }},
                          {"tiles", flops, [&] { run(tiles); }},
                          {"oneDNN", flops, [&] { plain.run(); }},
                          {"packed", flops, [&] { packed.run(); }}});
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"rows", "in", "out"})->UseManualTime()->Unit(benchmark::kMillisecond);
  b->Args({4096, 768, 3072})->Args({4096, 3072, 768})->Args({1024, 768, 50304});
}

BENCHMARK_CAPTURE(products, forward, Product::forward)->Apply(shapes);
BENCHMARK_CAPTURE(products, input_grad, Product::input_grad)->Apply(shapes);
BENCHMARK_CAPTURE(products, weight_grad, Product::weight_grad)->Apply(shapes);

}  // namespace
}  // namespace trireme::cpu

int main(int argc, char** argv) {
  return trireme::bench::run_main(argc, argv);
}
