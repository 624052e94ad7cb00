// Activations and their gradients.
#include <limits>

#include "backend/cpu/kernels/combine_chunks.h"
#include "backend/cpu/kernels/math.h"
#include "backend/cpu/kernels/parallel.h"
#include "backend/cpu/kernels/table.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// Value and derivative of an activation of one argument.
template <class A>
struct Curve {
  Vec<A> value, slope;
};

// x sigmoid(2 u) equals x (1 + tanh u) / 2, with u = sqrt(2 / pi) (x + 0.044715 x^3).
template <class A>
struct GeluTanh {
  static TRIREME_INLINE Curve<A> at(Vec<A> x) {
    constexpr double two_root = 1.5957691216057307118;  // 2 sqrt(2 / pi)
    const auto a = splat(static_cast<A>(two_root));
    const auto b = splat(static_cast<A>(two_root * 0.044715));
    const auto square = x * x;
    const auto s = sigmoid(x * (a + b * square));
    const auto slope_inside = a + splat(A{3}) * b * square;
    return {x * s, s + x * s * (splat(A{1}) - s) * slope_inside};
  }
};

template <class A>
struct GeluErf {
  static TRIREME_INLINE Curve<A> at(Vec<A> x) {
    const Normal<A> n = normal(x);
    return {x * n.cdf, n.cdf + x * n.pdf};
  }
};

template <class A>
struct Silu {
  static TRIREME_INLINE Curve<A> at(Vec<A> x) {
    const auto one = splat(A{1});
    const auto s = sigmoid(x);
    return {x * s, s * (one + x * (one - s))};
  }
};

template <class A>
struct SquaredRelu {
  static TRIREME_INLINE Curve<A> at(Vec<A> x) {
    const auto positive = max(splat(A{0}), x);
    return {positive * positive, positive + positive};
  }
};

// tanh x = 2 sigmoid(2 x) - 1.
template <class A>
struct Tanh {
  static TRIREME_INLINE Curve<A> at(Vec<A> x) {
    const auto one = splat(A{1});
    const auto s = sigmoid(x + x);
    const auto value = s + s - one;
    return {value, one - value * value};
  }
};

template <template <class> class F, class T>
void apply(T* y, const T* x, std::int64_t count) {
  for_vectors<lanes_of<T>>(count, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    store(y + i, F<Acc<T>>::at(load(x + i, n)).value, n);
  });
}

template <template <class> class F, class T>
void apply_grad(T* dx, const T* dy, const T* x, std::int64_t count) {
  for_vectors<lanes_of<T>>(count, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    store(dx + i, load(dy + i, n) * F<Acc<T>>::at(load(x + i, n)).slope, n);
  });
}

template <template <class> class F, class T>
void gated_row(T* y, const T* gate, const T* up, std::int64_t cols) {
  for_vectors<lanes_of<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    store(y + i, F<Acc<T>>::at(load(gate + i, n)).value * load(up + i, n), n);
  });
}

template <template <class> class F, class T>
void gated_grad_row(T* dgate, T* dup, const T* dy, const T* gate, const T* up, std::int64_t cols) {
  for_vectors<lanes_of<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    const auto curve = F<Acc<T>>::at(load(gate + i, n));
    const auto grad = load(dy + i, n);
    const auto dgate_i = grad * load(up + i, n) * curve.slope;
    store(dup + i, grad * curve.value, n);
    store(dgate + i, dgate_i, n);
  });
}

// swiglu with the numbers of its rule (gpt-oss), of rows of gate and up.
template <class T>
class AdjustedGate {
  using A = Acc<T>;

 public:
  explicit AdjustedGate(const ActivationRule& rule)
      : alpha_(static_cast<A>(rule.gate_alpha)),
        offset_(static_cast<A>(rule.gate_offset)),
        limit_(rule.clamp > 0 ? static_cast<A>(rule.clamp) : std::numeric_limits<A>::infinity()) {}

  void row(T* y, const T* gate, const T* up, std::int64_t cols) const {
    for_vectors<lanes_of<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
      const auto g = at_most(load(gate + i, n));
      store(y + i, g * sigmoid(splat(alpha_) * g) * shifted(load(up + i, n)), n);
    });
  }

  void grad_row(T* dgate, T* dup, const T* dy, const T* gate, const T* up,
                std::int64_t cols) const {
    const auto one = splat(A{1}), zero = splat(A{0});
    for_vectors<lanes_of<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
      const auto x = load(gate + i, n), u = load(up + i, n), grad = load(dy + i, n);
      const auto g = at_most(x), s = sigmoid(splat(alpha_) * g);
      const auto slope = s * (one + splat(alpha_) * g * (one - s));
      store(dgate + i, where_less(splat(limit_), x, zero, grad * shifted(u) * slope), n);
      const auto within = where_less(u, splat(-limit_), zero, grad * g * s);
      store(dup + i, where_less(splat(limit_), u, zero, within), n);
    });
  }

 private:
  // Both leave NaN as it is.
  TRIREME_INLINE Vec<A> at_most(Vec<A> x) const { return min(splat(limit_), x); }
  TRIREME_INLINE Vec<A> shifted(Vec<A> up) const {
    return max(splat(-limit_), at_most(up)) + splat(offset_);
  }

  A alpha_, offset_, limit_;
};

// Cost of one element in nanoseconds of one thread.
template <class T>
constexpr double element_ns = sizeof(T) == 8 ? 10.0 : 0.8;

template <template <class> class F, class T>
void run(T* y, const T* x, std::int64_t count) {
  parallel_pieces(
      count, element_ns<T>,
      [=](std::int64_t begin, std::int64_t end) { apply<F>(y + begin, x + begin, end - begin); },
      lanes_of<T>);
}

template <template <class> class F, class T>
void run_grad(const ActivationGradOperands<T>& o, std::int64_t rows, std::int64_t cols) {
  const auto apply = [=](std::int64_t begin, std::int64_t end) {
    apply_grad<F>(o.dx + begin, o.dy + begin, o.x + begin, end - begin);
  };
  // Sums have a fixed number of tasks: with more threads, both passes are faster than one.
  const bool at_once = o.dbias && 2 * pool_threads() <= row_chunks(rows);
  if (!at_once) parallel_pieces(rows * cols, element_ns<T>, apply, lanes_of<T>);
  if (!o.dbias) return;
  sum_rows<T>(o.dbias, o.accumulate, o.workspace, rows, cols,
              element_ns<T> * static_cast<double>(cols), [=](std::int64_t row, int count) {
                if (at_once) apply(row * cols, (row + count) * cols);
                return o.dx + row * cols;
              });
}

// Calls row(y, gate, up) for every row.
template <class T, class Row>
void run_rows(T* y, const T* x, std::int64_t rows, std::int64_t cols, const Row& row) {
  parallel_pieces(rows, element_ns<T> * static_cast<double>(cols),
                  [=](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t r = begin; r < end; ++r) {
                      const T* gate = x + r * 2 * cols;
                      row(y + r * cols, gate, gate + cols);
                    }
                  });
}

// Calls row(dgate, dup, dy, gate, up) for every row.
template <class T, class Row>
void run_grad_rows(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols,
                   const Row& row) {
  parallel_pieces(rows, element_ns<T> * static_cast<double>(cols),
                  [=](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t r = begin; r < end; ++r) {
                      const T* gate = x + r * 2 * cols;
                      T* dgate = dx + r * 2 * cols;
                      row(dgate, dgate + cols, dy + r * cols, gate, gate + cols);
                    }
                  });
}

template <template <class> class F, class T>
void run_gated(T* y, const T* x, std::int64_t rows, std::int64_t cols) {
  run_rows(y, x, rows, cols,
           [=](T* to, const T* gate, const T* up) { gated_row<F>(to, gate, up, cols); });
}

template <template <class> class F, class T>
void run_gated_grad(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols) {
  run_grad_rows(dx, dy, x, rows, cols,
                [=](T* dgate, T* dup, const T* grad, const T* gate, const T* up) {
                  gated_grad_row<F>(dgate, dup, grad, gate, up, cols);
                });
}

template <class T>
void activation(const ActivationRule& rule, T* y, const T* x, std::int64_t rows,
                std::int64_t cols) {
  if (rule.is_adjusted()) {
    const AdjustedGate<T> adjusted(rule);
    return run_rows(y, x, rows, cols,
                    [=](T* to, const T* gate, const T* up) { adjusted.row(to, gate, up, cols); });
  }
  switch (rule.kind) {
    case ActivationKind::gelu_tanh:
      return run<GeluTanh>(y, x, rows * cols);
    case ActivationKind::gelu_erf:
      return run<GeluErf>(y, x, rows * cols);
    case ActivationKind::silu:
      return run<Silu>(y, x, rows * cols);
    case ActivationKind::squared_relu:
      return run<SquaredRelu>(y, x, rows * cols);
    case ActivationKind::tanh:
      return run<Tanh>(y, x, rows * cols);
    case ActivationKind::swiglu:
      return run_gated<Silu>(y, x, rows, cols);
    case ActivationKind::geglu:
      return run_gated<GeluTanh>(y, x, rows, cols);
  }
}

template <class T>
void activation_grad(const ActivationRule& rule, const ActivationGradOperands<T>& o,
                     std::int64_t rows, std::int64_t cols) {
  if (rule.is_adjusted()) {
    const AdjustedGate<T> adjusted(rule);
    return run_grad_rows(o.dx, o.dy, o.x, rows, cols,
                         [=](T* dgate, T* dup, const T* grad, const T* gate, const T* up) {
                           adjusted.grad_row(dgate, dup, grad, gate, up, cols);
                         });
  }
  switch (rule.kind) {
    case ActivationKind::gelu_tanh:
      return run_grad<GeluTanh>(o, rows, cols);
    case ActivationKind::gelu_erf:
      return run_grad<GeluErf>(o, rows, cols);
    case ActivationKind::silu:
      return run_grad<Silu>(o, rows, cols);
    case ActivationKind::squared_relu:
      return run_grad<SquaredRelu>(o, rows, cols);
    case ActivationKind::tanh:
      return run_grad<Tanh>(o, rows, cols);
    case ActivationKind::swiglu:
      return run_gated_grad<Silu>(o.dx, o.dy, o.x, rows, cols);
    case ActivationKind::geglu:
      return run_gated_grad<GeluTanh>(o.dx, o.dy, o.x, rows, cols);
  }
}

}  // namespace

template <class T>
void set_activation(Kernels<T>& table) {
  table.activation = at_once<activation<T>>;
  table.activation_grad = at_once<activation_grad<T>>;
}
TRIREME_INSTANTIATE(set_activation)

}  // namespace trireme::cpu::TRIREME_ISA
