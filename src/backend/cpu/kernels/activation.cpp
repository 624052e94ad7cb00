// Activations and their gradients.
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
void run_grad(T* dx, const T* dy, const T* x, std::int64_t count) {
  parallel_pieces(
      count, element_ns<T>,
      [=](std::int64_t begin, std::int64_t end) {
        apply_grad<F>(dx + begin, dy + begin, x + begin, end - begin);
      },
      lanes_of<T>);
}

template <template <class> class F, class T>
void run_gated(T* y, const T* x, std::int64_t rows, std::int64_t cols) {
  parallel_pieces(rows, element_ns<T> * static_cast<double>(cols),
                  [=](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t r = begin; r < end; ++r) {
                      const T* gate = x + r * 2 * cols;
                      gated_row<F>(y + r * cols, gate, gate + cols, cols);
                    }
                  });
}

template <template <class> class F, class T>
void run_gated_grad(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t cols) {
  parallel_pieces(
      rows, element_ns<T> * static_cast<double>(cols), [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          const T* gate = x + r * 2 * cols;
          T* dgate = dx + r * 2 * cols;
          gated_grad_row<F>(dgate, dgate + cols, dy + r * cols, gate, gate + cols, cols);
        }
      });
}

template <class T>
void activation(ActivationKind kind, T* y, const T* x, std::int64_t rows, std::int64_t cols) {
  switch (kind) {
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
void activation_grad(ActivationKind kind, T* dx, const T* dy, const T* x, std::int64_t rows,
                     std::int64_t cols) {
  switch (kind) {
    case ActivationKind::gelu_tanh:
      return run_grad<GeluTanh>(dx, dy, x, rows * cols);
    case ActivationKind::gelu_erf:
      return run_grad<GeluErf>(dx, dy, x, rows * cols);
    case ActivationKind::silu:
      return run_grad<Silu>(dx, dy, x, rows * cols);
    case ActivationKind::squared_relu:
      return run_grad<SquaredRelu>(dx, dy, x, rows * cols);
    case ActivationKind::tanh:
      return run_grad<Tanh>(dx, dy, x, rows * cols);
    case ActivationKind::swiglu:
      return run_gated_grad<Silu>(dx, dy, x, rows, cols);
    case ActivationKind::geglu:
      return run_gated_grad<GeluTanh>(dx, dy, x, rows, cols);
  }
}

}  // namespace

template <class T>
void set_activation(Kernels<T>& table) {
  table.activation = at_once<activation<T>>;
  table.activation_grad = at_once<activation_grad<T>>;
}
TRIREME_INSTANTIATE(set_activation);

}  // namespace trireme::cpu::TRIREME_ISA
