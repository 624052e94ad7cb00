// Elementwise steps of the optimizers on a range of parameters, with the
// cast to the compute copy.
#include "backend/cpu/kernels/parallel.h"
#include "backend/cpu/kernels/simd.h"
#include "backend/cpu/kernels/table.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
void adam_range(const AdamStep& step, Acc<T>* master, Acc<T>* m, Acc<T>* v, const Acc<T>* grad,
                T* compute, std::int64_t count) {
  using A = Acc<T>;
  const auto value = [](double x) { return splat(static_cast<A>(x)); };
  const StepBlock& block = *step.block;
  const auto grad_scale = value(block.update_scale);
  const auto joined_decay = value(step.decoupled ? 0 : step.weight_decay);
  const double lr = block.lr * step.lr_ratio;
  const auto kept = value(step.decoupled ? 1 - lr * step.weight_decay : 1);
  const auto beta1 = value(step.beta1), beta2 = value(step.beta2);
  const auto rest1 = value(1 - step.beta1), rest2 = value(1 - step.beta2);
  const auto rate = value(lr / block.bias_correction1);
  const auto root_scale = value(1 / __builtin_sqrt(block.bias_correction2));
  const auto eps = value(step.eps);
  for_vectors<lanes_of<T>>(count, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    const auto p = load(master + i, n);
    const auto g = load(grad + i, n) * grad_scale + joined_decay * p;
    const auto m_new = beta1 * load(m + i, n) + rest1 * g;
    const auto v_new = beta2 * load(v + i, n) + rest2 * g * g;
    const auto p_new = p * kept - rate * m_new / (sqrt(v_new) * root_scale + eps);
    store(m + i, m_new, n);
    store(v + i, v_new, n);
    store(master + i, p_new, n);
    if (compute) store(compute + i, p_new, n);
  });
}

template <class T>
void adam(const AdamStep& step, Acc<T>* master, Acc<T>* m, Acc<T>* v, const Acc<T>* grad,
          T* compute, std::int64_t count) {
  parallel_pieces(
      count, 9 * sizeof(Acc<T>) * byte_ns,
      [&](std::int64_t begin, std::int64_t end) {
        adam_range(step, master + begin, m + begin, v + begin, grad + begin,
                   compute ? compute + begin : nullptr, end - begin);
      },
      lanes_of<T>);
}

template <class T>
void sgd_range(const SgdStep& step, Acc<T>* master, Acc<T>* velocity, const Acc<T>* grad,
               T* compute, std::int64_t count) {
  using A = Acc<T>;
  const auto value = [](double x) { return splat(static_cast<A>(x)); };
  const auto rate = value(step.block->lr * step.lr_ratio), inertia = value(step.momentum);
  const auto decay = value(step.weight_decay), scale = value(step.block->update_scale);
  for_vectors<lanes_of<T>>(count, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    const auto p = load(master + i, n);
    auto change = load(grad + i, n) * scale + decay * p;
    if (velocity) {
      change = inertia * load(velocity + i, n) + change;
      store(velocity + i, change, n);
    }
    const auto p_new = p - rate * change;
    store(master + i, p_new, n);
    if (compute) store(compute + i, p_new, n);
  });
}

template <class T>
void sgd(const SgdStep& step, Acc<T>* master, Acc<T>* velocity, const Acc<T>* grad, T* compute,
         std::int64_t count) {
  parallel_pieces(
      count, 6 * sizeof(Acc<T>) * byte_ns,
      [&](std::int64_t begin, std::int64_t end) {
        sgd_range(step, master + begin, velocity ? velocity + begin : nullptr, grad + begin,
                  compute ? compute + begin : nullptr, end - begin);
      },
      lanes_of<T>);
}

// Returns -1, 0 or 1; NaN for NaN.
template <class A>
TRIREME_INLINE Vec<A> sign(Vec<A> x) {
  const auto zero = splat(A{0});
  return where_less(zero, x, splat(A{1}), where_less(x, zero, splat(A{-1}), x));
}

template <class T>
void lion_range(const LionStep& step, Acc<T>* master, Acc<T>* m, const Acc<T>* grad, T* compute,
                std::int64_t count) {
  using A = Acc<T>;
  const auto value = [](double x) { return splat(static_cast<A>(x)); };
  const double lr = step.block->lr * step.lr_ratio;
  const auto scale = value(step.block->update_scale), rate = value(lr);
  const auto kept = value(1 - lr * step.weight_decay);
  const auto beta1 = value(step.beta1), rest1 = value(1 - step.beta1);
  const auto beta2 = value(step.beta2), rest2 = value(1 - step.beta2);
  for_vectors<lanes_of<T>>(count, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    const auto g = load(grad + i, n) * scale;
    const auto m_old = load(m + i, n);
    const auto p = load(master + i, n) * kept - rate * sign<A>(beta1 * m_old + rest1 * g);
    store(m + i, beta2 * m_old + rest2 * g, n);
    store(master + i, p, n);
    if (compute) store(compute + i, p, n);
  });
}

template <class T>
void lion(const LionStep& step, Acc<T>* master, Acc<T>* m, const Acc<T>* grad, T* compute,
          std::int64_t count) {
  parallel_pieces(
      count, 7 * sizeof(Acc<T>) * byte_ns,
      [&](std::int64_t begin, std::int64_t end) {
        lion_range(step, master + begin, m + begin, grad + begin,
                   compute ? compute + begin : nullptr, end - begin);
      },
      lanes_of<T>);
}

template <class T>
void momentum(const MomentumStep& step, Acc<T>* m, Acc<T>* grad, std::int64_t count) {
  using A = Acc<T>;
  const auto value = [](double x) { return splat(static_cast<A>(x)); };
  const auto scale = value(step.block->update_scale);
  const auto inertia = value(step.momentum), rest = value(1 - step.momentum);
  const bool nesterov = step.nesterov;
  parallel_pieces(
      count, 4 * sizeof(A) * byte_ns,
      [&](std::int64_t begin, std::int64_t end) {
        for_vectors<lanes_of<T>>(end - begin, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
          const auto g = load(grad + begin + i, n) * scale;
          const auto m_new = inertia * load(m + begin + i, n) + rest * g;
          store(m + begin + i, m_new, n);
          store(grad + begin + i, nesterov ? inertia * m_new + rest * g : m_new, n);
        });
      },
      lanes_of<T>);
}

template <class T>
void apply_direction(const DirectionStep& step, Acc<T>* master, const Acc<T>* direction, T* compute,
                     std::int64_t count) {
  using A = Acc<T>;
  const double lr = step.block->lr * step.lr_ratio;
  const auto rate = splat(static_cast<A>(lr));
  const auto kept = splat(static_cast<A>(1 - lr * step.weight_decay));
  parallel_pieces(
      count, 4 * sizeof(A) * byte_ns,
      [&](std::int64_t begin, std::int64_t end) {
        for_vectors<lanes_of<T>>(end - begin, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
          const auto p = load(master + begin + i, n) * kept - rate * load(direction + begin + i, n);
          store(master + begin + i, p, n);
          if (compute) store(compute + begin + i, p, n);
        });
      },
      lanes_of<T>);
}

}  // namespace

template <class T>
void set_optimizer(Kernels<T>& table) {
  table.adam = at_once<adam<T>>;
  table.sgd = at_once<sgd<T>>;
  table.lion = at_once<lion<T>>;
  table.momentum = at_once<momentum<T>>;
  table.apply_direction = at_once<apply_direction<T>>;
}
TRIREME_INSTANTIATE(set_optimizer)

}  // namespace trireme::cpu::TRIREME_ISA
