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

// The gated columns of one head, and their scale, where gates come before the norm.
template <class T>
struct GatedHead {
  using A = Acc<T>;

  const GateHeadsShape& s;
  const T *x, *gate;
  A scale;  // 1 / rms

  GatedHead(const GateHeadsShape& shape, const T* from, const T* gates)
      : s(shape), x(from), gate(gates) {
    const A squares = sum_terms<A>(s.head_dim, [&](std::int64_t c, auto n) TRIREME_INLINE_LAMBDA {
      const auto v = value(c, n);
      return v * v;
    });
    scale = reciprocal_root(squares / static_cast<A>(s.head_dim) + static_cast<A>(s.eps));
  }
  template <class N>
  TRIREME_INLINE Vec<A> value(std::int64_t c, N n) const {
    return load(x + c, n) * GateCurve<A>::at(s.silu, load(gate + c, n)).value;
  }
};

template <class T>
void norm_gated_head(const GateHeadsShape& s, T* y, const T* x, const T* gate, const T* weight) {
  const GatedHead<T> head(s, x, gate);
  for_vectors<lanes_of<T>>(s.head_dim, [&](std::int64_t c, auto n) TRIREME_INLINE_LAMBDA {
    store(y + c, head.value(c, n) * splat(head.scale) * load(weight + c, n), n);
  });
}

// Gradient of one head whose gates come before the norm, whose columns begin at `at` and have the
// weights from `first` on; adds that of the weight.
template <class T>
void norm_gated_head_grad(const GateHeadsShape& s, const GateHeadsGradOperands<T>& o,
                          std::int64_t at, std::int64_t first, Acc<T>* dweight) {
  using A = Acc<T>;
  const GatedHead<T> head(s, o.x + at, o.gate + at);
  const T *const dy = o.dy + at, *const weight = o.weight + first;
  // Mean of dy * weight * normalized value.
  const A along = sum_terms<A>(s.head_dim,
                               [&](std::int64_t c, auto n) TRIREME_INLINE_LAMBDA {
                                 return load(dy + c, n) * load(weight + c, n) * head.value(c, n);
                               }) *
                  head.scale / static_cast<A>(s.head_dim);
  for_vectors<lanes_of<T>>(s.head_dim, [&](std::int64_t c, auto n) TRIREME_INLINE_LAMBDA {
    const auto curve = GateCurve<A>::at(s.silu, load(o.gate + at + c, n));
    const auto x = load(o.x + at + c, n), unit = x * curve.value * splat(head.scale);
    const auto grad = load(dy + c, n);
    const auto dvalue = (grad * load(weight + c, n) - unit * splat(along)) * splat(head.scale);
    store(dweight + first + c, load(dweight + first + c, n) + grad * unit, n);
    store(o.dgate + at + c, dvalue * x * curve.slope, n);
    store(o.dx + at + c, dvalue * curve.value, n);
  });
}

template <class T>
void gate_heads(const GateHeadsShape& s, T* y, const T* x, const T* gate, const T* weight) {
  using A = Acc<T>;
  parallel_pieces(s.rows, gate_row_ns<T>(s, 3), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * s.heads; i < end * s.heads; ++i) {
      const std::int64_t at = i / s.heads * s.stride + i % s.heads * s.head_dim;
      if (s.gates_first) {
        norm_gated_head(s, y + at, x + at, gate + at, weight + i % s.heads * s.head_dim);
        continue;
      }
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
  const std::int64_t weights = s.weights(s.heads);
  parallel_chunks(s.rows, rows_per_chunk(s.rows), gate_row_ns<T>(s, 5),
                  [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
                    A* const dweight = s.norm ? o.workspace + part * weights : nullptr;
                    if (s.norm) __builtin_memset(dweight, 0, weights * sizeof(A));
                    for (std::int64_t i = begin * s.heads; i < end * s.heads; ++i) {
                      const std::int64_t first = i % s.heads * s.head_dim;
                      const std::int64_t at = i / s.heads * s.stride + first;
                      if (s.gates_first)
                        norm_gated_head_grad(s, o, at, first, dweight);
                      else
                        gate_head_grad(s, o, at, dweight);
                    }
                  });
  if (s.norm) combine_chunks(o.dweight, o.accumulate, o.workspace, row_chunks(s.rows), weights);
}

// Numbers of one row and head of decay_rates.
template <class T>
struct DecayPlace {
  using A = Acc<T>;

  std::int64_t b, a, decay, rate, skip;  // elements of ba and of rates

  DecayPlace(const DecayShape& s, std::int64_t row, std::int64_t head)
      : b(row * 2 * s.heads() + head / s.per_group * 2 * s.per_group + head % s.per_group),
        a(s.time_steps ? row * s.heads() + head : b + s.per_group),
        decay(row * s.rate_cols() + head),
        rate(decay + s.heads()),
        skip(rate + s.heads()) {}
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
void decay_rates(const DecayShape& s, Acc<T>* rates, const T* ba, const T* a_log, const T* dt_bias,
                 const T* skip) {
  using A = Acc<T>;
  parallel_pieces(
      s.rows, decay_ns * static_cast<double>(s.heads()), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          for (std::int64_t head = 0; head < s.heads(); ++head) {
            const DecayPlace<T> at(s, row, head);
            const double step = load_one(ba + at.a) + load_one(dt_bias + head);
            rates[at.decay] = static_cast<A>(
                -__builtin_exp(static_cast<double>(load_one(a_log + head))) * softplus(step));
            if (s.time_steps) {
              rates[at.rate] = static_cast<A>(softplus(step));
              rates[at.skip] = load_one(skip + head);
              continue;
            }
            rates[at.rate] = static_cast<A>(sigmoid_of(static_cast<double>(load_one(ba + at.b))));
          }
        }
      });
}

template <class T>
void decay_rates_grad(const DecayShape& s, const DecayGradOperands<T>& o) {
  using A = Acc<T>;
  const std::int64_t heads = s.heads(), chunks = row_chunks(s.rows);
  A *const logs = o.workspace, *const biases = logs + chunks * heads;
  A* const skips = biases + chunks * heads;
  parallel_chunks(
      s.rows, rows_per_chunk(s.rows), 2 * decay_ns * static_cast<double>(heads),
      [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
        for (std::int64_t head = 0; head < heads; ++head) {
          const double amplitude = __builtin_exp(static_cast<double>(load_one(o.a_log + head)));
          double log_sum = 0, bias_sum = 0, skip_sum = 0;
          for (std::int64_t row = begin; row < end; ++row) {
            const DecayPlace<T> at(s, row, head);
            const double step = load_one(o.ba + at.a) + load_one(o.dt_bias + head);
            const double ddecay = static_cast<double>(o.drates[at.decay]) * -amplitude;
            const auto drate = static_cast<double>(o.drates[at.rate]);
            const double dstep = (s.time_steps ? ddecay + drate : ddecay) * sigmoid_of(step);
            store_one(o.dba + at.a, static_cast<A>(dstep));
            log_sum += ddecay * softplus(step);
            bias_sum += dstep;
            if (s.time_steps) {
              skip_sum += static_cast<double>(o.drates[at.skip]);
              continue;
            }
            const double rate = sigmoid_of(static_cast<double>(load_one(o.ba + at.b)));
            store_one(o.dba + at.b, static_cast<A>(drate * rate * (1 - rate)));
          }
          logs[part * heads + head] = static_cast<A>(log_sum);
          biases[part * heads + head] = static_cast<A>(bias_sum);
          if (s.time_steps) skips[part * heads + head] = static_cast<A>(skip_sum);
        }
      });
  combine_chunks(o.da_log, o.accumulate, logs, chunks, heads);
  combine_chunks(o.ddt_bias, o.accumulate, biases, chunks, heads);
  if (s.time_steps) combine_chunks(o.dskip, o.accumulate, skips, chunks, heads);
}

}  // namespace

template <class T>
void set_gate_heads(Kernels<T>& table) {
  table.gate_heads = at_once<gate_heads<T>>;
  table.gate_heads_grad = at_once<gate_heads_grad<T>>;
  table.decay_rates = at_once<decay_rates<T>>;
  table.decay_rates_grad = at_once<decay_rates_grad<T>>;
}
TRIREME_INSTANTIATE(set_gate_heads)

}  // namespace trireme::cpu::TRIREME_ISA
