// The bf16 products of linear layers by our AMX kernels and by oneDNN, on the same threads: medians
// of interleaved runs. oneDNN multiplies as the engine would use it (plain layouts, tiles of one
// thread each), and by itself with OpenMP's threads, once with plain layouts and once with weights
// that were put into the layout of its choice beforehand.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <dnnl.hpp>
#include <functional>
#include <vector>

#include "backend/cpu/gemm_amx.h"
#include "backend/cpu/gemm_dnnl.h"
#include "backend/cpu/isa.h"
#include "base/error.h"
#include "base/random.h"
#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

using Memory = dnnl::memory;

struct Operands {
  explicit Operands(const GemmProblem& p) : a(p.m * p.k), b(p.k * p.n), c(p.m * p.n) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = bf16(static_cast<float>(normal(1, 0, i)));
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = bf16(static_cast<float>(normal(1, 1, i)));
  }
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

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void compare(Product product, const char* name, const LinearShape& shape) {
  const GemmProblem p = problem_of(product, shape);
  Operands operands(p);
  const AmxGemm ours(p, false);
  const DnnlGemm<bf16, bf16> tiles(p);
  std::vector<char> workspace(std::max(ours.workspace_bytes(), tiles.workspace_bytes()) + 64);
  char* aligned = workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64);
  WholeProduct plain(p, operands, false), packed(p, operands, true);
  const auto run = [&](const GemmEngine<bf16>& engine) {
    engine.run(operands.c.data(), operands.a.data(), operands.b.data(), nullptr, false, aligned);
  };
  const std::vector<std::function<void()>> all = {[&] { run(ours); }, [&] { run(tiles); },
                                                  [&] { plain.run(); }, [&] { packed.run(); }};
  std::vector<std::vector<double>> times(all.size());
  for (int round = 0; round < 11; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) times[i].push_back(seconds_of(all[i]));
  }
  const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n * p.k);
  fmt::print("{:12} {:5} x {:4} x {:5}", name, shape.rows, shape.in, shape.out);
  for (std::vector<double>& one : times) {
    std::nth_element(one.begin(), one.begin() + 5, one.end());
    fmt::print("{:11.0f}", flops / one[5] / 1e9);
  }
  fmt::print("\n");
}

void run() {
  if (isa() != Isa::amx) fail_input("needs a processor with AMX");
  fmt::print("GFLOP/s on {} threads{:>12}{:>11}{:>11}{:>11}\n", ThreadPool::global().size(), "own",
             "tiles", "oneDNN", "packed");
  for (const LinearShape shape : {LinearShape{4096, 768, 3072}, LinearShape{4096, 3072, 768},
                                  LinearShape{1024, 768, 50304}}) {
    compare(Product::forward, "forward", shape);
    compare(Product::input_grad, "input_grad", shape);
    compare(Product::weight_grad, "weight_grad", shape);
  }
}

}  // namespace
}  // namespace trireme::cpu

int main() {
  try {
    trireme::cpu::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
