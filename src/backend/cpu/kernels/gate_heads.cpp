// Gates of heads, with or without a norm of each head, and the decays of linear attention.
#include "backend/cpu/kernels/combine_chunks.h"
#include "backend/cpu/kernels/math.h"
#include "backend/cpu/kernels/norm_rows.h"
#include "backend/cpu/kernels/parallel.h"
#include "backend/cpu/kernels/table.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// Value and derivative of a gate.
template <class A>
struct GateCurve {
  Vec<A> value, slope;

  TRIREME_INLINE static GateCurve at(bool silu, Vec<A> x) {
    const auto one = splat(A{1}), s = sigmoid(x);
    if (!silu) return {s, s * (one - s)};
    return {x * s, s * (one + x * (one - s))};
  }
};

template <class T>
double gate_row_ns(const GateHeadsShape& s, int tensors) {
  return tensors * sizeof(T) * byte_ns * static_cast<double>(s.heads * s.head_dim);
}

// 1 / rms of a head.
template <class T>
Acc<T> head_scale(const GateHeadsShape& s, const T* x) {
  return reciprocal_root(mean_square_of(x, Acc<T>{0}, s.head_dim) + static_cast<Acc<T>>(s.eps));
}

template <class T>
void gate_heads(const GateHeadsShape& s, T* y, const T* x, const T* gate, const T* weight) {
  using A = Acc<T>;
  parallel_pieces(s.rows, gate_row_ns<T>(s, 3), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * s.heads; i < end * s.heads; ++i) {
      const std::int64_t at = i / s.heads * s.stride + i % s.heads * s.head_dim;
      const auto scale = splat(s.norm ? head_scale(s, x + at) : A{1});
      for_vectors<lanes_of<T>>(s.head_dim, [&](std::int64_t c, auto n) TRIREME_INLINE_LAMBDA {
        auto out = load(x + at + c, n) * scale;
        if (s.norm) out = out * load(weight + c, n);
        store(y + at + c, out * GateCurve<A>::at(s.silu, load(gate + at + c, n)).value, n);
      });
    }
  });
}

// Gradient of one head; adds that of the weight. `normed` has room for a head.
template <class T>
void gate_head_grad(const GateHeadsShape& s, const GateHeadsGradOperands<T>& o, std::int64_t at,
                    Acc<T>* dweight) {
  using A = Acc<T>;
  const A scale = s.norm ? head_scale(s, o.x + at) : A{1};
  A along = 0;
  if (s.norm) {
    // Mean of dy * gate * weight * normalized x.
    along = sum_terms<A>(s.head_dim,
                         [&](std::int64_t c, auto n) TRIREME_INLINE_LAMBDA {
                           const auto g = GateCurve<A>::at(s.silu, load(o.gate + at + c, n)).value;
                           return load(o.dy + at + c, n) * g * load(o.weight + c, n) *
                                  load(o.x + at + c, n);
                         }) *
            scale / static_cast<A>(s.head_dim);
  }
  for_vectors<lanes_of<T>>(s.head_dim, [&](std::int64_t c, auto n) TRIREME_INLINE_LAMBDA {
    const auto curve = GateCurve<A>::at(s.silu, load(o.gate + at + c, n));
    const auto grad = load(o.dy + at + c, n), unit = load(o.x + at + c, n) * splat(scale);
    auto dunit = grad * curve.value, value = unit;
    if (s.norm) {
      store(dweight + c, load(dweight + c, n) + dunit * unit, n);
      value = unit * load(o.weight + c, n);
      dunit = (dunit * load(o.weight + c, n) - unit * splat(along)) * splat(scale);
    }
    store(o.dgate + at + c, grad * value * curve.slope, n);
    store(o.dx + at + c, dunit, n);
  });
}

template <class T>
void gate_heads_grad(const GateHeadsShape& s, const GateHeadsGradOperands<T>& o) {
  using A = Acc<T>;
  parallel_chunks(s.rows, rows_per_chunk(s.rows), gate_row_ns<T>(s, 5),
                  [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
                    A* const dweight = s.norm ? o.workspace + part * s.head_dim : nullptr;
                    if (s.norm) __builtin_memset(dweight, 0, s.head_dim * sizeof(A));
                    for (std::int64_t i = begin * s.heads; i < end * s.heads; ++i)
                      gate_head_grad(s, o, i / s.heads * s.stride + i % s.heads * s.head_dim,
                                     dweight);
                  });
  if (s.norm) combine_chunks(o.dweight, o.accumulate, o.workspace, row_chunks(s.rows), s.head_dim);
}

// Numbers of one row and head of decay_rates.
template <class T>
struct DecayPlace {
  using A = Acc<T>;

  std::int64_t b, a, decay, rate;  // elements of ba and of rates

  DecayPlace(const DecayShape& s, std::int64_t row, std::int64_t head)
      : b(row * 2 * s.heads() + head / s.per_group * 2 * s.per_group + head % s.per_group),
        a(b + s.per_group),
        decay(row * 2 * s.heads() + head),
        rate(decay + s.heads()) {}
};

// log(1 + e^x), and x itself where that is the same number.
double softplus(double x) {
  return x > 30 ? x : __builtin_log1p(__builtin_exp(x));
}
double sigmoid_of(double x) {
  return 1 / (1 + __builtin_exp(-x));
}

constexpr double decay_ns = 60;  // of one row and head

template <class T>
void decay_rates(const DecayShape& s, Acc<T>* rates, const T* ba, const T* a_log,
                 const T* dt_bias) {
  using A = Acc<T>;
  parallel_pieces(
      s.rows, decay_ns * static_cast<double>(s.heads()), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          for (std::int64_t head = 0; head < s.heads(); ++head) {
            const DecayPlace<T> at(s, row, head);
            const double step = load_one(ba + at.a) + load_one(dt_bias + head);
            rates[at.decay] = static_cast<A>(
                -__builtin_exp(static_cast<double>(load_one(a_log + head))) * softplus(step));
            rates[at.rate] = static_cast<A>(sigmoid_of(static_cast<double>(load_one(ba + at.b))));
          }
        }
      });
}

template <class T>
void decay_rates_grad(const DecayShape& s, T* dba, Acc<T>* da_log, Acc<T>* ddt_bias,
                      bool accumulate, const Acc<T>* drates, const T* ba, const T* a_log,
                      const T* dt_bias, Acc<T>* workspace) {
  using A = Acc<T>;
  const std::int64_t heads = s.heads(), chunks = row_chunks(s.rows);
  A* const biases = workspace + chunks * heads;
  parallel_chunks(
      s.rows, rows_per_chunk(s.rows), 2 * decay_ns * static_cast<double>(heads),
      [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
        for (std::int64_t head = 0; head < heads; ++head) {
          const double amplitude = __builtin_exp(static_cast<double>(load_one(a_log + head)));
          double log_sum = 0, bias_sum = 0;
          for (std::int64_t row = begin; row < end; ++row) {
            const DecayPlace<T> at(s, row, head);
            const double step = load_one(ba + at.a) + load_one(dt_bias + head);
            const double ddecay = static_cast<double>(drates[at.decay]) * -amplitude;
            const double dstep = ddecay * sigmoid_of(step);
            const double rate = sigmoid_of(static_cast<double>(load_one(ba + at.b)));
            store_one(dba + at.a, static_cast<A>(dstep));
            store_one(dba + at.b,
                      static_cast<A>(static_cast<double>(drates[at.rate]) * rate * (1 - rate)));
            log_sum += ddecay * softplus(step);
            bias_sum += dstep;
          }
          workspace[part * heads + head] = static_cast<A>(log_sum);
          biases[part * heads + head] = static_cast<A>(bias_sum);
        }
      });
  combine_chunks(da_log, accumulate, workspace, chunks, heads);
  combine_chunks(ddt_bias, accumulate, biases, chunks, heads);
}

}  // namespace

template <class T>
void set_gate_heads(Kernels<T>& table) {
  table.gate_heads = at_once<gate_heads<T>>;
  table.gate_heads_grad = at_once<gate_heads_grad<T>>;
  table.decay_rates = at_once<decay_rates<T>>;
  table.decay_rates_grad = at_once<decay_rates_grad<T>>;
}
TRIREME_INSTANTIATE(set_gate_heads);

}  // namespace trireme::cpu::TRIREME_ISA
