// Times every CPU kernel beside a plain copy that moves as many bytes: `bench_kernels
// [filter] [tokens]`.
// TRIREME_ISA and TRIREME_THREADS choose the set and the threads. Each figure is that of the
// fastest of many rounds, which other work on the machine disturbed least; every round times the
// copy too.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backend/cpu/kernels.h"
#include "base/random.h"
#include "base/thread_pool.h"

namespace {

using namespace trireme;
using namespace trireme::cpu;

double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string filter;

// Prints one line. `bytes` is what the kernel must read and write at least.
void measure(const std::string& name, double bytes, const std::function<void()>& body) {
  if (name.find(filter) == std::string::npos) return;
  const auto half = static_cast<std::int64_t>(bytes / 2);
  std::vector<char> from(half, 1), to(half);
  const auto copy = [&] {
    parallel_ranges(half, 128 * 1024, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, end - begin);
    });
  };
  double time = 1e9, copy_time = 1e9;
  body();
  copy();
  double spent = 0;
  for (int round = 0; spent < 0.4 || round < 10; ++round) {
    const double t = seconds(body), c = seconds(copy);
    time = std::min(time, t);
    copy_time = std::min(copy_time, c);
    spent += t + c;
  }
  fmt::print("{:<28} {:>9.1f} us {:>7.1f} GB/s   copy {:>6.1f} GB/s   {:>4.0f}%\n", name,
             time * 1e6, bytes / time * 1e-9, bytes / copy_time * 1e-9, 100 * copy_time / time);
}

template <class T>
std::vector<T> make(std::int64_t count, double scale = 1) {
  std::vector<T> out(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = scale * (uniform(1, 1, i) * 4 - 2);
    if constexpr (std::is_same_v<T, double>) {
      out[i] = value;
    } else {
      out[i] = T(static_cast<float>(value));
    }
  }
  return out;
}

std::int64_t tokens = 4096;

// The layers of GPT-2 124M.
template <class T>
void run(const std::string& type) {
  using A = Acc<T>;
  const auto& k = kernels<T>();
  const std::int64_t rows = tokens, cols = 768, count = rows * cols, size = sizeof(T);
  const auto label = [&](const std::string& name) { return name + " " + type; };
  auto x = make<T>(4 * count), dy = make<T>(4 * count), w = make<T>(cols), b = make<T>(cols);
  std::vector<T> y(4 * count), z(4 * count);
  std::vector<A> mean(rows), rstd(rows, A{1}), dw(4 * cols), db(4 * cols);
  std::vector<A> scratch(norm_grad_workspace(rows, 4 * cols));
  const std::int64_t samples[] = {5, 6, 7, 8};
  Dropout none, drop{.probability = 0.1f, .seed = 3, .step = 4, .site = 5, .sample_ids = samples};
  drop.seq_length = rows / 4;
  const double tensor = static_cast<double>(count * size);

  for (const auto& [norm_name, kind] :
       {std::pair{"layer_norm", NormKind::layer_norm}, std::pair{"rms_norm", NormKind::rms_norm}}) {
    const NormShape shape{kind, rows, cols, 1e-5};
    const std::string name = norm_name;
    measure(label(name), 2 * tensor, [&] {
      k.norm(shape, y.data(), mean.data(), rstd.data(), x.data(), w.data(), b.data(), nullptr,
             nullptr, none);
    });
    measure(label(name + "+add"), 4 * tensor, [&] {
      k.norm(shape, y.data(), mean.data(), rstd.data(), x.data(), w.data(), b.data(), z.data(),
             dy.data(), none);
    });
    measure(label(name + "+dropout"), 4 * tensor, [&] {
      k.norm(shape, y.data(), mean.data(), rstd.data(), x.data(), w.data(), b.data(), z.data(),
             dy.data(), drop);
    });
    measure(label(name + "_grad"), 4 * tensor, [&] {
      k.norm_grad(shape, y.data(), dw.data(), db.data(), true, dy.data(), x.data(), mean.data(),
                  rstd.data(), w.data(), z.data(), scratch.data());
    });
  }
  for (const auto& [name, kind] :
       {std::pair{"gelu_tanh", ActivationKind::gelu_tanh},
        std::pair{"gelu_erf", ActivationKind::gelu_erf}, std::pair{"silu", ActivationKind::silu},
        std::pair{"squared_relu", ActivationKind::squared_relu}}) {
    measure(label(name), 8 * tensor,
            [&] { k.activation(kind, y.data(), x.data(), rows, 4 * cols); });
    measure(label(std::string(name) + "_grad"), 12 * tensor,
            [&] { k.activation_grad(kind, y.data(), dy.data(), x.data(), rows, 4 * cols); });
  }
  measure(label("swiglu"), 6 * tensor,
          [&] { k.activation(ActivationKind::swiglu, y.data(), x.data(), rows, 2 * cols); });
  measure(label("swiglu_grad"), 10 * tensor, [&] {
    k.activation_grad(ActivationKind::swiglu, y.data(), dy.data(), x.data(), rows, 2 * cols);
  });
  measure(label("add"), 3 * tensor,
          [&] { k.add(y.data(), x.data(), dy.data(), rows, cols, none); });
  measure(label("add+dropout"), 3 * tensor,
          [&] { k.add(y.data(), x.data(), dy.data(), rows, cols, drop); });
  measure(label("bias_grad"), 4 * tensor,
          [&] { k.bias_grad(db.data(), true, dy.data(), rows, 4 * cols, scratch.data()); });

  AttentionShape heads{.batch = 4, .seq = rows / 4, .groups = 12, .queries_per_group = 1};
  heads.head_dim = 64;
  const auto angles = make<float>(rows / 4 * 32);
  measure(label("rope"), 4 * tensor,
          [&] { k.rope(z.data(), heads, 64, angles.data(), angles.data(), nullptr, 1); });

  const std::int64_t vocab = 50257, ld = 50304, chunk = rows / 16;
  {
    std::vector<std::int32_t> ids(rows);
    for (std::int64_t r = 0; r < rows; ++r) {
      ids[r] =
          static_cast<std::int32_t>(std::pow(uniform(2, 2, r), 4) * static_cast<double>(vocab));
    }
    const auto table = make<T>(vocab * cols);
    std::vector<A> dtable(vocab * cols);
    std::vector<std::int32_t> sorted(embedding_grad_workspace(rows, vocab));
    measure(label("embedding"), 2 * tensor, [&] {
      k.embedding(y.data(), ids.data(), table.data(), x.data(), nullptr, nullptr, nullptr, rows,
                  cols, 1024, 0, vocab);
    });
    measure(label("embedding_grad"), static_cast<double>(count * (size + 2 * sizeof(A))), [&] {
      k.embedding_grad(dtable.data(), true, ids.data(), dy.data(), rows, cols, 0, vocab,
                       sorted.data());
    });
  }
  {
    auto logits = make<T>(chunk * ld);
    std::vector<A> largest(chunk), sum(chunk), target(chunk), lse(chunk, A{13});
    const std::vector<std::int32_t> targets(chunk, 1234);
    const std::vector<float> weights(chunk, 1.0f);
    const double bytes = static_cast<double>(chunk * vocab * size);
    measure(label("softmax_stats"), bytes, [&] {
      k.softmax_stats(largest.data(), sum.data(), target.data(), logits.data(), targets.data(),
                      chunk, vocab, ld, 0);
    });
    measure(label("cross_entropy_grad"), 2 * bytes, [&] {
      k.cross_entropy_grad(logits.data(), lse.data(), targets.data(), weights.data(), 1, chunk,
                           vocab, ld, 0);
    });
  }
  {
    const std::int64_t parameters = rows * 4096;
    const double a = sizeof(A), n = static_cast<double>(parameters);
    auto master = make<A>(parameters), m = make<A>(parameters), v = make<A>(parameters),
         grad = make<A>(parameters);
    for (A& value : v) value *= value;
    std::vector<T> compute(parameters);
    const AdamStep step{1e-4, 0.9, 0.95, 1e-8, 0.1, 0.5, 0.5, 1, true};
    measure(label("adam"), n * (7 * a + sizeof(T)), [&] {
      k.adam(step, master.data(), m.data(), v.data(), grad.data(), compute.data(), parameters);
    });
    measure(label("sgd"), n * (5 * a + sizeof(T)), [&] {
      k.sgd(1e-5f, 0.9f, 0.1f, 1, master.data(), m.data(), grad.data(), compute.data(), parameters);
    });
    measure(label("cast_from_master"), n * (a + sizeof(T)),
            [&] { k.cast_from_master(compute.data(), grad.data(), parameters); });
    measure(label("sum_of_squares"), n * a, [&] { k.sum_of_squares(grad.data(), parameters); });
    measure(label("first_not_finite"), n * sizeof(T),
            [&] { k.first_not_finite(compute.data(), parameters); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) filter = argv[1];
  if (argc > 2) tokens = std::stoll(argv[2]);
  fmt::print("{} on {} threads\n", name_of(isa()), ThreadPool::global().size());
  run<bf16>("bf16");
  run<float>("f32");
  run<f16>("f16");
}
