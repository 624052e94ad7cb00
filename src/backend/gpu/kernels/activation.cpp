// Activations and their gradients.
#include <limits>

#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/row_sums.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

// Value and derivative of an activation of one argument.
struct Curve {
  float value, slope;
};

GPU_FN float sigmoid(float x) {
  return 1.0f / (1.0f + exp(-x));
}

// x sigmoid(2 u) equals x (1 + tanh u) / 2, with u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanh {
  GPU_FN static Curve at(float x) {
    constexpr double two_root = 1.5957691216057307118;  // 2 sqrt(2 / pi)
    constexpr auto a = static_cast<float>(two_root), b = static_cast<float>(two_root * 0.044715);
    const float square = x * x;
    const float s = sigmoid(x * (a + b * square));
    return {x * s, s + x * s * (1.0f - s) * (a + 3.0f * b * square)};
  }
};

// Uses the CDF and the density of the standard normal distribution.
struct GeluErf {
  GPU_FN static Curve at(float x) {
    const float cdf = 0.5f * erfc(-0.70710678118654752440f * x);
    const float pdf = 0.39894228040143267794f * exp(-0.5f * x * x);
    return {x * cdf, cdf + x * pdf};
  }
};

struct Silu {
  GPU_FN static Curve at(float x) {
    const float s = sigmoid(x);
    return {x * s, s * (1.0f + x * (1.0f - s))};
  }
};

struct SquaredRelu {
  GPU_FN static Curve at(float x) {
    const float positive = x > 0 ? x : x < 0 ? 0.0f : x;  // NaN propagates
    return {positive * positive, positive + positive};
  }
};

// tanh x = 2 sigmoid(2 x) - 1.
struct Tanh {
  GPU_FN static Curve at(float x) {
    const float s = sigmoid(x + x);
    const float value = s + s - 1.0f;
    return {value, 1.0f - value * value};
  }
};

template <class F, class T>
GPU_KERNEL(256)
curve_kernel(T* y, const T* x, std::int64_t count, bool aligned) {
  for_eights(count, aligned, [=](const Columns& at) {
    store(y, at, each([](float v) { return F::at(v).value; }, load(x, at)));
  });
}

template <class F, class T>
GPU_KERNEL(256)
slope_kernel(T* dx, const T* dy, const T* x, std::int64_t count, bool aligned) {
  for_eights(count, aligned, [=](const Columns& at) {
    store(dx, at,
          each([](float g, float v) { return g * F::at(v).slope; }, load(dy, at), load(x, at)));
  });
}

// The same, with the sums over the rows of dx: of the numbers that it stores.
template <class F, class T>
GPU_KERNEL(RowSums::threads)
slope_sums_kernel(const RowSums sums, T* dx, const T* dy, const T* x, bool aligned) {
  sums.add(aligned, [=](std::int64_t row, const Columns& at) {
    const std::int64_t offset = row * sums.cols;
    const Eight slopes = each([](float g, float v) { return g * F::at(v).slope; },
                              load(dy + offset, at), load(x + offset, at));
    store(dx + offset, at, slopes);
    return rounded<T>(slopes);
  });
}

// Rows of y are [cols], those of x gate | up. One block per row.
template <class F, class T>
GPU_KERNEL(256)
gated_kernel(T* y, const T* x, std::int64_t cols, bool aligned) {
  const std::int64_t row = block_index().x;
  const T* const gate = x + row * 2 * cols;
  for (std::int64_t c = 8 * thread_index(); c < cols; c += 8 * block_size()) {
    const Columns at = columns_at(c, cols, aligned);
    store(y + row * cols, at,
          each([](float g, float u) { return F::at(g).value * u; }, load(gate, at),
               load(gate + cols, at)));
  }
}

template <class F, class T>
GPU_KERNEL(256)
gated_grad_kernel(T* dx, const T* dy, const T* x, std::int64_t cols, bool aligned) {
  const std::int64_t row = block_index().x;
  const T* const gate = x + row * 2 * cols;
  T* const dgate = dx + row * 2 * cols;
  for (std::int64_t c = 8 * thread_index(); c < cols; c += 8 * block_size()) {
    const Columns at = columns_at(c, cols, aligned);
    const Eight grad = load(dy + row * cols, at), up = load(gate + cols, at);
    Eight first = load(gate, at), second;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const Curve curve = F::at(first.v[i]);
      first.v[i] = grad.v[i] * up.v[i] * curve.slope;
      second.v[i] = grad.v[i] * curve.value;
    }
    store(dgate, at, first);
    store(dgate + cols, at, second);
  }
}

// swiglu with the numbers of its rule.
struct AdjustedGate {
  float alpha, offset, limit;

  explicit AdjustedGate(const ActivationRule& rule)
      : alpha(static_cast<float>(rule.gate_alpha)),
        offset(static_cast<float>(rule.gate_offset)),
        limit(rule.clamp > 0 ? static_cast<float>(rule.clamp)
                             : std::numeric_limits<float>::infinity()) {}

  // Both leave NaN as it is.
  GPU_FN float at_most(float x) const { return x > limit ? limit : x; }
  GPU_FN float shifted(float up) const { return (up < -limit ? -limit : at_most(up)) + offset; }
};

template <class T>
GPU_KERNEL(256)
adjusted_gate_kernel(const AdjustedGate rule, T* y, const T* x, std::int64_t cols, bool aligned) {
  const std::int64_t row = block_index().x;
  const T* const gate = x + row * 2 * cols;
  for (std::int64_t c = 8 * thread_index(); c < cols; c += 8 * block_size()) {
    const Columns at = columns_at(c, cols, aligned);
    const auto value = [=](float v, float u) {
      const float g = rule.at_most(v);
      return g * sigmoid(rule.alpha * g) * rule.shifted(u);
    };
    store(y + row * cols, at, each(value, load(gate, at), load(gate + cols, at)));
  }
}

template <class T>
GPU_KERNEL(256)
adjusted_gate_grad_kernel(const AdjustedGate rule, T* dx, const T* dy, const T* x,
                          std::int64_t cols, bool aligned) {
  const std::int64_t row = block_index().x;
  const T* const gate = x + row * 2 * cols;
  T* const dgate = dx + row * 2 * cols;
  for (std::int64_t c = 8 * thread_index(); c < cols; c += 8 * block_size()) {
    const Columns at = columns_at(c, cols, aligned);
    const Eight grad = load(dy + row * cols, at), up = load(gate + cols, at);
    Eight first = load(gate, at), second;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float v = first.v[i], u = up.v[i], g = rule.at_most(v), s = sigmoid(rule.alpha * g);
      const float slope = s * (1.0f + rule.alpha * g * (1.0f - s));
      first.v[i] = v > rule.limit ? 0.0f : grad.v[i] * rule.shifted(u) * slope;
      second.v[i] = u > rule.limit || u < -rule.limit ? 0.0f : grad.v[i] * g * s;
    }
    store(dgate, at, first);
    store(dgate + cols, at, second);
  }
}

// Threads of a block that handles a row of `cols`.
int row_threads(std::int64_t cols) {
  return cols <= 512 ? 64 : cols <= 1024 ? 128 : 256;
}

// Calls run(F{}) with the curve of a gated kind's gate.
template <class Run>
void with_gate(ActivationKind kind, const Run& run) {
  kind == ActivationKind::geglu ? run(GeluTanh{}) : run(Silu{});
}

// Same, with the curve of any other kind.
template <class Run>
void with_curve(ActivationKind kind, const Run& run) {
  switch (kind) {
    case ActivationKind::gelu_tanh:
      return run(GeluTanh{});
    case ActivationKind::gelu_erf:
      return run(GeluErf{});
    case ActivationKind::silu:
      return run(Silu{});
    case ActivationKind::squared_relu:
      return run(SquaredRelu{});
    case ActivationKind::tanh:
      return run(Tanh{});
    case ActivationKind::swiglu:
    case ActivationKind::geglu:
      break;
  }
}

template <class T>
void activation(Queue& queue, const ActivationRule& rule, T* y, const T* x, std::int64_t rows,
                std::int64_t cols) {
  const ActivationKind kind = rule.kind;
  if (rule.is_adjusted()) {
    return launch(queue, one_block_each(rows, row_threads(cols)), adjusted_gate_kernel<T>,
                  AdjustedGate(rule), y, x, cols, rows_are_aligned(cols, y, x));
  }
  if (is_gated(kind)) {
    return with_gate(kind, [&]<class F>(F) {
      launch(queue, one_block_each(rows, row_threads(cols)), gated_kernel<F, T>, y, x, cols,
             rows_are_aligned(cols, y, x));
    });
  }
  with_curve(kind, [&]<class F>(F) {
    const std::int64_t count = rows * cols;
    launch(queue, over((count + 7) / 8), curve_kernel<F, T>, y, x, count,
           rows_are_aligned(8, y, x));
  });
}

template <class T>
void activation_grad(Queue& queue, const ActivationRule& rule, const ActivationGradOperands<T>& o,
                     std::int64_t rows, std::int64_t cols) {
  const ActivationKind kind = rule.kind;
  if (rule.is_adjusted()) {
    return launch(queue, one_block_each(rows, row_threads(cols)), adjusted_gate_grad_kernel<T>,
                  AdjustedGate(rule), o.dx, o.dy, o.x, cols,
                  rows_are_aligned(cols, o.dx, o.dy, o.x));
  }
  if (is_gated(kind)) {
    return with_gate(kind, [&]<class F>(F) {
      launch(queue, one_block_each(rows, row_threads(cols)), gated_grad_kernel<F, T>, o.dx, o.dy,
             o.x, cols, rows_are_aligned(cols, o.dx, o.dy, o.x));
    });
  }
  with_curve(kind, [&]<class F>(F) {
    if (o.dbias) {
      return sum_rows(queue, o.dbias, o.accumulate, o.workspace, rows, cols,
                      slope_sums_kernel<F, T>, o.dx, o.dy, o.x,
                      rows_are_aligned(cols, o.dx, o.dy, o.x));
    }
    const std::int64_t count = rows * cols;
    launch(queue, over((count + 7) / 8), slope_kernel<F, T>, o.dx, o.dy, o.x, count,
           rows_are_aligned(8, o.dx, o.dy, o.x));
  });
}

}  // namespace

template <class T>
void set_activation(Kernels<T>& table) {
  table.activation = activation<T>;
  table.activation_grad = activation_grad<T>;
}
TRIREME_GPU_INSTANTIATE(set_activation);

}  // namespace trireme::gpu
