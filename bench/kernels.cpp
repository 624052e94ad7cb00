// Speed of every CPU kernel, in bytes per second, next to a plain copy of as many bytes.
// TRIREME_ISA and TRIREME_THREADS choose the instruction set and the number of threads.
#include "backend/cpu/kernels.h"
#include "backend/cpu/device.h"

#include <cmath>
#include <cstring>

#include "bench.h"

namespace {

constexpr StepBlock unscaled;

using namespace trireme;
using namespace trireme::cpu;
using bench::random_values;
using benchmark::State;

// Operands of the kernels, with the dimensions of GPT-2 124M. `bytes` is the unit for the minimum
// that each kernel must read and write.

constexpr std::int64_t cols = 768, wide = 4 * cols, vocab = 50257, padded_vocab = 50304;

template <class T>
struct Layer {
  using A = Acc<T>;
  explicit Layer(std::int64_t tokens) : rows(tokens) {}

  const std::int64_t rows;
  const double bytes = static_cast<double>(rows * cols * sizeof(T));
  const std::vector<T> x = random_values<T>(rows * wide), dy = x, w = random_values<T>(cols);
  std::vector<T> y = x, z = x;
  std::vector<A> mean = std::vector<A>(rows), rstd = std::vector<A>(rows, A{1});
  std::vector<A> dw = std::vector<A>(wide), db = dw;
  std::vector<A> scratch =
      std::vector<A>(std::max(norm_grad_workspace(rows, cols), bias_grad_workspace(rows, wide)));
  // A true rotation: it is applied repeatedly, and any other matrix would lead to denormal
  // numbers.
  const std::vector<A> cos = std::vector<A>(rows / 4 * 32, A(0.6));
  const std::vector<A> sin = std::vector<A>(rows / 4 * 32, A(0.8));
  const std::vector<std::int64_t> samples{5, 6, 7, 8};
  static constexpr StepBlock block{.seed = 3, .step = 4};
  const Dropout dropout{.probability = 0.1f,
                        .block = &block,
                        .site = 5,
                        .sample_ids = samples.data(),
                        .seq_length = rows / 4};
};

template <class T>
struct Embedding {
  explicit Embedding(std::int64_t tokens) : rows(tokens) {
    for (std::int64_t r = 0; r < rows; ++r) {  // some ids are frequent, as in text
      ids[r] = static_cast<std::int32_t>(std::pow(uniform(2, 2, r), 4) * vocab);
    }
  }
  const std::int64_t rows;
  const double bytes = static_cast<double>(rows * cols * sizeof(T));
  std::vector<std::int32_t> ids = std::vector<std::int32_t>(rows);
  std::vector<std::int32_t> scratch =
      std::vector<std::int32_t>(embedding_grad_workspace(rows, vocab));
  const std::vector<T> table = random_values<T>(vocab * cols),
                       positions = random_values<T>(rows * cols);
  std::vector<T> y = positions;
  std::vector<Acc<T>> dtable = std::vector<Acc<T>>(vocab * cols);
};

template <class T>
struct Logits {
  using A = Acc<T>;
  explicit Logits(std::int64_t tokens) : rows(tokens) {}

  const std::int64_t rows;
  const double bytes = static_cast<double>(rows * vocab * sizeof(T));
  std::vector<T> logits = random_values<T>(rows * padded_vocab);
  std::vector<A> largest = std::vector<A>(rows), sum = largest, target = largest;
  const std::vector<A> lse = std::vector<A>(rows, A{13});
  const std::vector<std::int32_t> targets = std::vector<std::int32_t>(rows, 1234);
  const std::vector<float> weights = std::vector<float>(rows, 1.0f);
};

template <class T>
struct Weights {
  using A = Acc<T>;
  explicit Weights(std::int64_t parameters) : count(parameters) {
    for (A& value : v) value *= value;
  }
  const std::int64_t count;
  const double bytes = static_cast<double>(count);
  const std::vector<A> grad = random_values<A>(count);
  std::vector<A> master = grad, m = grad, v = grad;
  std::vector<T> compute = std::vector<T>(count);
};

// Registers kernels on Buffers<T>, with the full size and with one that fits into caches.
template <template <class> class Buffers, class T>
struct Group {
  std::string type, argument;
  std::int64_t size;

  void operator()(const std::string& name, double times,
                  const std::function<void(const Kernels<T>&, Buffers<T>&)>& kernel) const {
    const auto run = [=](State& state) {
      Buffers<T> buffers(state.range(0));
      const double bytes = times * buffers.bytes;
      const auto half = static_cast<std::int64_t>(bytes / 2);
      std::vector<char> from(half, 1), to(half);
      const auto copy = [&] {
        parallel_ranges(half, 128 << 10, [&](std::int64_t begin, std::int64_t end) {
          std::memcpy(to.data() + begin, from.data() + begin, end - begin);
        });
      };
      bench::in_turns(state, {{"byte/s", bytes, [&] { kernel(kernels<T>(), buffers); }},
                              {"copy", bytes, copy}});
    };
    benchmark::RegisterBenchmark((name + "/" + type).c_str(), run)
        ->ArgName(argument)
        ->Arg(size / 16)
        ->Arg(size)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
};

template <class T>
void add_norm(const Group<Layer, T>& add, const std::string& name, NormKind kind) {
  const auto forward = [kind](bool residual, bool dropout) {
    return [=](const Kernels<T>& k, Layer<T>& l) {
      k.norm(queue(), {{kind, 1e-5}, l.rows, cols}, l.y.data(), l.mean.data(), l.rstd.data(),
             l.x.data(), l.w.data(), l.w.data(), l.z.data(), residual ? l.dy.data() : nullptr,
             dropout ? l.dropout : Dropout{});
    };
  };
  add(name, 2, forward(false, false));
  add(name + "+add", 4, forward(true, false));
  add(name + "+dropout", 4, forward(true, true));
  add(name + "_grad", 4, [kind](const Kernels<T>& k, Layer<T>& l) {
    k.norm_grad(queue(), {{kind, 1e-5}, l.rows, cols},
                {.dx = l.y.data(),
                 .dweight = l.dw.data(),
                 .dbias = l.db.data(),
                 .accumulate = true,
                 .dy = l.dy.data(),
                 .x = l.x.data(),
                 .mean = l.mean.data(),
                 .rstd = l.rstd.data(),
                 .weight = l.w.data(),
                 .dres = l.z.data(),
                 .workspace = l.scratch.data()});
  });
}

// `factor` is the input width divided by the output width.
template <class T>
void add_activation(const Group<Layer, T>& add, const std::string& name, ActivationKind kind,
                    int factor = 1) {
  const std::int64_t out = wide / factor;
  add(name, 4 + 4.0 / factor, [=](const Kernels<T>& k, Layer<T>& l) {
    k.activation(queue(), kind, l.y.data(), l.x.data(), l.rows, out);
  });
  add(name + "_grad", 8 + 4.0 / factor, [=](const Kernels<T>& k, Layer<T>& l) {
    k.activation_grad(queue(), kind, {.dx = l.y.data(), .dy = l.dy.data(), .x = l.x.data()}, l.rows,
                      out);
  });
}

template <class T>
void add_layer(const std::string& type) {
  using K = const Kernels<T>;
  using L = Layer<T>;
  const Group<Layer, T> add{type, "tokens", 4096};
  add_norm(add, "layer_norm", NormKind::layer_norm);
  add_norm(add, "rms_norm", NormKind::rms_norm);
  add_activation(add, "gelu_tanh", ActivationKind::gelu_tanh);
  add_activation(add, "gelu_erf", ActivationKind::gelu_erf);
  add_activation(add, "silu", ActivationKind::silu);
  add_activation(add, "squared_relu", ActivationKind::squared_relu);
  add_activation(add, "swiglu", ActivationKind::swiglu, 2);
  add("add", 3,
      [](K& k, L& l) { k.add(queue(), l.y.data(), l.x.data(), l.dy.data(), l.rows, cols, {}); });
  add("add+dropout", 3, [](K& k, L& l) {
    k.add(queue(), l.y.data(), l.x.data(), l.dy.data(), l.rows, cols, l.dropout);
  });
  add("bias_grad", 4, [](K& k, L& l) {
    k.bias_grad(queue(), l.db.data(), true, l.dy.data(), l.rows, wide, l.scratch.data());
  });
  add("rope", 4, [](K& k, L& l) {
    const AttentionShape shape{4, l.rows / 4, 12, 1, 64, true, 1};
    k.rope(queue(), l.z.data(), shape, 64, l.cos.data(), l.sin.data(), nullptr, 1);
  });
}

template <class T>
void add_vocabulary(const std::string& type) {
  using K = const Kernels<T>;
  using E = Embedding<T>;
  using L = Logits<T>;
  const Group<Embedding, T> embedding{type, "tokens", 4096};
  embedding("embedding", 3, [](K& k, E& e) {
    k.embedding(queue(), {.y = e.y.data(),
                          .ids = e.ids.data(),
                          .table = e.table.data(),
                          .position_table = e.positions.data(),
                          .rows = e.rows,
                          .cols = cols,
                          .seq = e.rows / 4,
                          .first_id = 0,
                          .local_ids = vocab});
  });
  embedding("embedding_grad", 1 + 2.0 * sizeof(Acc<T>) / sizeof(T), [](K& k, E& e) {
    k.embedding_grad(queue(), e.dtable.data(), true, e.ids.data(), e.y.data(), e.rows, cols, 0,
                     vocab, e.scratch.data());
  });
  const Group<Logits, T> logits{type, "tokens", 256};
  logits("softmax_stats", 1, [](K& k, L& l) {
    k.softmax_stats(queue(), l.largest.data(), l.sum.data(), l.target.data(), l.logits.data(),
                    l.targets.data(), l.rows, vocab, padded_vocab, 0);
  });
  logits("cross_entropy_grad", 2, [](K& k, L& l) {
    k.cross_entropy_grad(queue(), l.logits.data(), l.lse.data(), l.targets.data(), l.weights.data(),
                         &unscaled, l.rows, vocab, padded_vocab, 0);
  });
  logits("classifier", 2, [](K& k, L& l) {
    k.classifier(queue(), l.logits.data(), l.lse.data(), l.targets.data(), l.weights.data(),
                 &unscaled, l.rows, vocab, padded_vocab, 0);
  });
}

template <class T>
void add_optimizer(const std::string& type) {
  using K = const Kernels<T>;
  using W = Weights<T>;
  constexpr double a = sizeof(Acc<T>), t = sizeof(T);
  const Group<Weights, T> add{type, "parameters", 16 << 20};
  add("adam", 7 * a + t, [](K& k, W& w) {
    k.adam(queue(), {1e-4, 0.9, 0.95, 1e-8, 0.1, 0.5, 0.5, 1, true}, w.master.data(), w.m.data(),
           w.v.data(), w.grad.data(), w.compute.data(), w.count);
  });
  add("sgd", 5 * a + t, [](K& k, W& w) {
    k.sgd(queue(), {1e-5, 0.9, 0.1, 1}, w.master.data(), w.m.data(), w.grad.data(),
          w.compute.data(), w.count);
  });
  add("cast_from_master", a + t,
      [](K& k, W& w) { k.cast_from_master(queue(), w.compute.data(), w.grad.data(), w.count); });
  add("sum_of_squares", a, [](K& k, W& w) { k.sum_of_squares(queue(), w.grad.data(), w.count); });
  add("first_not_finite", t,
      [](K& k, W& w) { k.first_not_finite(queue(), w.compute.data(), w.count); });
}

template <class T>
void add_all(const std::string& type) {
  add_layer<T>(type);
  add_vocabulary<T>(type);
  add_optimizer<T>(type);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::AddCustomContext("isa", name_of(isa()));
  add_all<bf16>("bf16");
  add_all<float>("f32");
  add_all<f16>("f16");
  return bench::run_main(argc, argv);
}
