// Times every CPU kernel beside a plain copy that moves as many bytes: `bench_kernels [filter]
// [tokens]`. TRIREME_ISA and TRIREME_THREADS choose the set and the threads. Each figure is that of
// the fastest of many rounds, which other work on the machine disturbed least; every round times
// the copy too.
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

std::string filter;
std::int64_t tokens = 4096;

double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Prints one line. `bytes` is what the kernel must read and write at least.
void measure(const std::string& name, double bytes, const std::function<void()>& body) {
  if (name.find(filter) == std::string::npos) return;
  constexpr std::int64_t piece = 128 << 10;
  const auto half = static_cast<std::int64_t>(bytes / 2);
  std::vector<char> from(half, 1), to(half);
  const auto copy = [&] {
    parallel_ranges(half, piece, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, end - begin);
    });
  };
  double time = 1e9, copy_time = 1e9, spent = 0;
  for (int round = 0; spent < 0.4 || round < 10; ++round) {
    const double t = seconds(body), c = seconds(copy);
    time = std::min(time, t);
    copy_time = std::min(copy_time, c);
    spent += t + c;
  }
  fmt::print("{:<24} {:>9.1f} us {:>6.1f} GB/s   copy {:>6.1f} GB/s  {:>4.0f}%\n", name, time * 1e6,
             bytes / time * 1e-9, bytes / copy_time * 1e-9, 100 * copy_time / time);
}

template <class T>
std::vector<T> make(std::int64_t count) {
  std::vector<T> out(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = uniform(1, 1, i) * 4 - 2;
    if constexpr (std::is_same_v<T, double>) {
      out[i] = value;
    } else {
      out[i] = T(static_cast<float>(value));
    }
  }
  return out;
}

// The layers of GPT-2 124M, for one storage type.
template <class T>
class Bench {
 public:
  explicit Bench(std::string type) : type_(std::move(type)) {}

  void run() {
    norms(NormKind::layer_norm, "layer_norm");
    norms(NormKind::rms_norm, "rms_norm");
    activation(ActivationKind::gelu_tanh, "gelu_tanh");
    activation(ActivationKind::gelu_erf, "gelu_erf");
    activation(ActivationKind::silu, "silu");
    activation(ActivationKind::squared_relu, "squared_relu");
    swiglu();
    residual();
    rope();
    embedding();
    cross_entropy();
    optimizer();
  }

 private:
  using A = Acc<T>;
  static constexpr std::int64_t cols = 768, wide = 4 * cols, vocab = 50257, padded_vocab = 50304;

  std::string label(const std::string& name) const { return name + " " + type_; }

  void norms(NormKind kind, const std::string& name) {
    std::vector<A> mean(rows), rstd(rows, A{1}), dw(cols), db(cols);
    std::vector<A> scratch(norm_grad_workspace(rows, cols));
    const NormShape shape{kind, rows, cols, 1e-5};
    const auto forward = [&](const T* delta, const Dropout& dropout) {
      k.norm(shape, y.data(), mean.data(), rstd.data(), x.data(), w.data(), w.data(), z.data(),
             delta, dropout);
    };
    measure(label(name), 2 * tensor, [&] { forward(nullptr, none); });
    measure(label(name + "+add"), 4 * tensor, [&] { forward(dy.data(), none); });
    measure(label(name + "+dropout"), 4 * tensor, [&] { forward(dy.data(), drop); });
    measure(label(name + "_grad"), 4 * tensor, [&] {
      k.norm_grad(shape, y.data(), dw.data(), db.data(), true, dy.data(), x.data(), mean.data(),
                  rstd.data(), w.data(), z.data(), scratch.data());
    });
  }

  void activation(ActivationKind kind, const std::string& name) {
    measure(label(name), 8 * tensor, [&] { k.activation(kind, y.data(), x.data(), rows, wide); });
    measure(label(name + "_grad"), 12 * tensor,
            [&] { k.activation_grad(kind, y.data(), dy.data(), x.data(), rows, wide); });
  }

  void swiglu() {
    measure(label("swiglu"), 6 * tensor,
            [&] { k.activation(ActivationKind::swiglu, y.data(), x.data(), rows, wide / 2); });
    measure(label("swiglu_grad"), 10 * tensor, [&] {
      k.activation_grad(ActivationKind::swiglu, y.data(), dy.data(), x.data(), rows, wide / 2);
    });
  }

  void residual() {
    std::vector<A> db(wide), scratch(bias_grad_workspace(rows, wide));
    measure(label("add"), 3 * tensor,
            [&] { k.add(y.data(), x.data(), dy.data(), rows, cols, none); });
    measure(label("add+dropout"), 3 * tensor,
            [&] { k.add(y.data(), x.data(), dy.data(), rows, cols, drop); });
    measure(label("bias_grad"), 4 * tensor,
            [&] { k.bias_grad(db.data(), true, dy.data(), rows, wide, scratch.data()); });
  }

  void rope() {
    AttentionShape shape{.batch = 4, .seq = rows / 4, .groups = 12, .queries_per_group = 1};
    shape.head_dim = 64;
    const auto angles = make<float>(shape.seq * 32);
    measure(label("rope"), 4 * tensor,
            [&] { k.rope(z.data(), shape, 64, angles.data(), angles.data(), nullptr, 1); });
  }

  void embedding() {
    std::vector<std::int32_t> ids(rows), scratch(embedding_grad_workspace(rows, vocab));
    for (std::int64_t r = 0; r < rows; ++r) {  // some ids often, as in text
      ids[r] = static_cast<std::int32_t>(std::pow(uniform(2, 2, r), 4) * vocab);
    }
    const auto table = make<T>(vocab * cols);
    std::vector<A> dtable(vocab * cols);
    measure(label("embedding"), 3 * tensor, [&] {
      k.embedding(y.data(), ids.data(), table.data(), x.data(), nullptr, nullptr, nullptr, rows,
                  cols, rows / 4, 0, vocab);
    });
    measure(label("embedding_grad"), static_cast<double>(rows * cols * (sizeof(T) + 2 * sizeof(A))),
            [&] {
              k.embedding_grad(dtable.data(), true, ids.data(), dy.data(), rows, cols, 0, vocab,
                               scratch.data());
            });
  }

  void cross_entropy() {
    const std::int64_t chunk = std::max<std::int64_t>(rows / 16, 1);
    auto logits = make<T>(chunk * padded_vocab);
    std::vector<A> largest(chunk), sum(chunk), target(chunk), lse(chunk, A{13});
    const std::vector<std::int32_t> targets(chunk, 1234);
    const std::vector<float> weights(chunk, 1.0f);
    const auto bytes = static_cast<double>(chunk * vocab * sizeof(T));
    measure(label("softmax_stats"), bytes, [&] {
      k.softmax_stats(largest.data(), sum.data(), target.data(), logits.data(), targets.data(),
                      chunk, vocab, padded_vocab, 0);
    });
    measure(label("cross_entropy_grad"), 2 * bytes, [&] {
      k.cross_entropy_grad(logits.data(), lse.data(), targets.data(), weights.data(), 1, chunk,
                           vocab, padded_vocab, 0);
    });
  }

  void optimizer() {
    const std::int64_t count = rows * 4096;
    const double a = sizeof(A), n = static_cast<double>(count);
    auto master = make<A>(count), m = make<A>(count), v = make<A>(count), grad = make<A>(count);
    for (A& value : v) value *= value;
    std::vector<T> compute(count);
    const AdamStep step{1e-4, 0.9, 0.95, 1e-8, 0.1, 0.5, 0.5, 1, true};
    measure(label("adam"), n * (7 * a + sizeof(T)), [&] {
      k.adam(step, master.data(), m.data(), v.data(), grad.data(), compute.data(), count);
    });
    measure(label("sgd"), n * (5 * a + sizeof(T)), [&] {
      k.sgd(1e-5f, 0.9f, 0.1f, 1, master.data(), m.data(), grad.data(), compute.data(), count);
    });
    measure(label("cast_from_master"), n * (a + sizeof(T)),
            [&] { k.cast_from_master(compute.data(), grad.data(), count); });
    measure(label("sum_of_squares"), n * a, [&] { k.sum_of_squares(grad.data(), count); });
    measure(label("first_not_finite"), n * sizeof(T),
            [&] { k.first_not_finite(compute.data(), count); });
  }

  const Kernels<T>& k = kernels<T>();
  const std::int64_t rows = tokens;
  const double tensor = static_cast<double>(rows * cols * sizeof(T));
  std::string type_;
  std::vector<T> x = make<T>(rows * wide), dy = make<T>(rows * wide), w = make<T>(cols);
  std::vector<T> y = x, z = x;
  std::vector<std::int64_t> samples{5, 6, 7, 8};
  Dropout none;
  Dropout drop{.probability = 0.1f,
               .seed = 3,
               .step = 4,
               .site = 5,
               .sample_ids = samples.data(),
               .seq_length = rows / 4};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) filter = argv[1];
  if (argc > 2) tokens = std::max<std::int64_t>(std::stoll(argv[2]) / 4 * 4, 4);
  fmt::print("{} on {} threads, {} tokens\n", name_of(isa()), ThreadPool::global().size(), tokens);
  Bench<bf16>("bf16").run();
  Bench<float>("f32").run();
  Bench<f16>("f16").run();
}
