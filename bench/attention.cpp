// Speed of the attention kernels (flop/s) next to that of a plain matrix product as large as a
// linear layer, on the same threads. Attention counts the flops of its visible pairs of positions.
#include <cmath>

#include "backend/cpu/device.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/workspace.h"
#include "bench.h"

namespace trireme::cpu {
namespace {

using bench::random_values;
using benchmark::State;

// Forward or backward. Arguments: batch, seq, groups, queries per group, head_dim, dropout in %.
template <class T, bool backward>
void attention(State& state) {
  const std::vector<std::int64_t> ids{0, 1, 2, 3, 4, 5, 6, 7};
  AttentionShape s{state.range(0), state.range(1), state.range(2), state.range(3), state.range(4)};
  s.causal = true;
  s.scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  s.dropout.probability = static_cast<float>(state.range(5)) / 100;
  s.dropout.sample_ids = ids.data();

  const Kernels<T>& k = kernels<T>();
  const std::int64_t rows = s.batch * s.seq;
  const auto qkv = random_values<T>(rows * s.qkv_cols()),
             dctx = random_values<T>(rows * s.ctx_cols());
  std::vector<T> ctx(dctx.size()), dqkv(qkv.size());
  std::vector<Acc<T>> lse(s.batch * s.heads() * s.seq);
  std::vector<char> workspace(attention_workspace(this_machine(), dtype_of<T>, s));
  const auto forward = [&] {
    k.attention(queue(), s, ctx.data(), lse.data(), qkv.data(), workspace.data());
  };
  const auto gradient = [&] {
    k.attention_grad(queue(), s,
                     {.dqkv = dqkv.data(),
                      .dctx = dctx.data(),
                      .qkv = qkv.data(),
                      .ctx = ctx.data(),
                      .lse = lse.data(),
                      .workspace = workspace.data()});
  };
  forward();
  const double pairs = 0.5 * static_cast<double>((s.seq + 1) * rows * s.heads());
  const double flops = (backward ? 10 : 4) * pairs * static_cast<double>(s.head_dim);

  const LinearShape shape{4096, 768, 3072};
  const Linear<T> linear(Product::forward, shape);
  const auto x = random_values<T>(shape.rows * shape.in),
             weight = random_values<T>(shape.in * shape.out);
  std::vector<T> y(shape.rows * shape.out);
  std::vector<char> scratch(linear.workspace_bytes());
  const auto product = [&] {
    linear.run(y.data(), x.data(), weight.data(), nullptr, false, scratch.data());
  };

  std::function<void()> timed = forward;
  if (backward) timed = gradient;
  bench::in_turns(state, {{"flop/s", flops, timed}, {"linear", 2.0 * 4096 * 768 * 3072, product}});
}

void common(benchmark::internal::Benchmark* b) {
  b->ArgNames({"batch", "seq", "groups", "queries", "head_dim", "dropout%"});
  b->Args({4, 1024, 12, 1, 64, 0})->UseManualTime()->Unit(benchmark::kMillisecond);
}

void more(benchmark::internal::Benchmark* b) {
  b->Args({4, 1024, 12, 1, 64, 10})->Args({4, 1024, 4, 4, 128, 0});
  b->Args({1, 8192, 12, 1, 64, 0})->Args({8, 256, 6, 1, 32, 0});
}

BENCHMARK_TEMPLATE(attention, bf16, false)->Name("attention/bf16")->Apply(common)->Apply(more);
BENCHMARK_TEMPLATE(attention, bf16, true)->Name("attention_grad/bf16")->Apply(common)->Apply(more);
BENCHMARK_TEMPLATE(attention, float, false)->Name("attention/f32")->Apply(common);
BENCHMARK_TEMPLATE(attention, float, true)->Name("attention_grad/f32")->Apply(common);

}  // namespace
}  // namespace trireme::cpu

int main(int argc, char** argv) {
  benchmark::AddCustomContext("isa", trireme::cpu::name_of(trireme::cpu::isa()));
  return trireme::bench::run_main(argc, argv);
}
