// Speed of the attention kernels beside that of a plain matrix product on the same threads:
// medians of interleaved runs. Flops of attention are those of its visible pairs of positions.
// Wall time, and the processor time of all threads, which says more on a busy machine.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"
#include "base/random.h"
#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

struct Measured {
  std::string name;
  double flops;
  std::function<void()> run;
  std::vector<double> wall, busy;  // seconds
};

double now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double median(std::vector<double>& seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

void measure(std::vector<Measured>& all, int rounds) {
  for (auto& one : all) one.run();
  for (int round = 0; round < rounds; ++round) {
    for (auto& one : all) {
      const double wall = now(CLOCK_MONOTONIC), busy = now(CLOCK_PROCESS_CPUTIME_ID);
      one.run();
      one.wall.push_back(now(CLOCK_MONOTONIC) - wall);
      one.busy.push_back(now(CLOCK_PROCESS_CPUTIME_ID) - busy);
    }
  }
  for (auto& one : all) {
    const double wall = median(one.wall), busy = median(one.busy);
    fmt::print("  {:26} {:9.3f} ms wall {:7.1f} GFLOP/s, {:9.3f} ms busy {:7.1f} GFLOP/s per core\n",
               one.name, wall * 1e3, one.flops / wall * 1e-9, busy * 1e3, one.flops / busy * 1e-9);
  }
}

template <class T>
std::vector<T> values(std::int64_t count) {
  std::vector<T> out(count);
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = T(static_cast<Acc<T>>(normal(1, 1, static_cast<std::uint64_t>(i % 100003))));
  }
  return out;
}

template <class T>
void bench(const char* type, const AttentionShape& s, int rounds) {
  const Kernels<T>& k = kernels<T>();
  const std::int64_t rows = s.batch * s.seq;
  const auto qkv = values<T>(rows * s.qkv_cols()), dctx = values<T>(rows * s.ctx_cols());
  std::vector<T> ctx(dctx.size()), dqkv(qkv.size());
  std::vector<Acc<T>> lse(s.batch * s.heads() * s.seq);
  std::vector<char> workspace(k.attention_workspace(s));
  const double pairs = (s.causal ? 0.5 * (s.seq + 1) : s.seq) * static_cast<double>(rows) * s.heads();
  const double forward = 4 * pairs * s.head_dim;

  // A product of the size of one large linear layer.
  const LinearShape linear_shape{4096, 768, 3072};
  const Linear<T> linear(Product::forward, linear_shape);
  const auto x = values<T>(4096 * 768), weight = values<T>(3072 * 768);
  std::vector<T> y(4096 * 3072);
  std::vector<char> linear_workspace(linear.workspace_bytes());

  fmt::print("{} {} threads {}: batch {} seq {} heads {} / {} head_dim {}{}{}, workspace {:.1f} MB\n",
             type, name_of(isa()), ThreadPool::global().size(), s.batch, s.seq, s.heads(), s.groups,
             s.head_dim, s.causal ? " causal" : "", s.dropout.probability > 0 ? " dropout" : "",
             static_cast<double>(workspace.size()) * 1e-6);
  std::vector<Measured> all{
      {"attention", forward,
       [&] { k.attention(s, ctx.data(), lse.data(), qkv.data(), workspace.data()); }, {}, {}},
      {"attention_grad", 2.5 * forward,
       [&] {
         k.attention_grad(s, dqkv.data(), dctx.data(), qkv.data(), ctx.data(), lse.data(),
                          workspace.data());
       }, {}, {}},
      {"linear 4096 x 768 x 3072", 2.0 * 4096 * 768 * 3072,
       [&] {
         linear.run(y.data(), x.data(), weight.data(), nullptr, false, linear_workspace.data());
       }, {}, {}}};
  measure(all, rounds);
}

void bench_all() {
  const auto shape = [](std::int64_t batch, std::int64_t seq, std::int64_t groups,
                        std::int64_t queries_per_group, std::int64_t head_dim) {
    return AttentionShape{batch, seq, groups, queries_per_group, head_dim, true,
                          1 / std::sqrt(static_cast<double>(head_dim))};
  };
  const AttentionShape gpt2 = shape(4, 1024, 12, 1, 64);
  bench<bf16>("bf16", gpt2, 15);
  bench<float>("float", gpt2, 5);
  AttentionShape dropped = gpt2;
  const std::vector<std::int64_t> ids{0, 1, 2, 3};
  dropped.dropout.probability = 0.1f;
  dropped.dropout.sample_ids = ids.data();
  bench<bf16>("bf16", dropped, 5);
  bench<bf16>("bf16", shape(4, 1024, 4, 4, 128), 5);
  bench<bf16>("bf16", shape(1, 8192, 12, 1, 64), 3);
  bench<bf16>("bf16", shape(8, 256, 6, 1, 32), 15);
}

}  // namespace
}  // namespace trireme::cpu

int main() { trireme::cpu::bench_all(); }
