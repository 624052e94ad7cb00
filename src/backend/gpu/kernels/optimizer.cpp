// One optimizer step on a range of parameters, with the cast to the compute copy.
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

// Scalars of the update rule, derived from the step's.
struct AdamScalars {
  float grad_scale, joined_decay, kept, beta1, beta2, rest1, rest2, rate, root_scale, eps;

  GPU_FN explicit AdamScalars(const AdamStep& step) {
    const StepBlock& block = *step.block;
    const double lr = block.lr * step.lr_ratio;
    grad_scale = static_cast<float>(block.update_scale);
    joined_decay = static_cast<float>(step.decoupled ? 0.0 : step.weight_decay);
    kept = static_cast<float>(step.decoupled ? 1 - lr * step.weight_decay : 1.0);
    beta1 = static_cast<float>(step.beta1);
    beta2 = static_cast<float>(step.beta2);
    rest1 = static_cast<float>(1 - step.beta1);
    rest2 = static_cast<float>(1 - step.beta2);
    rate = static_cast<float>(lr / block.bias_correction1);
    root_scale = static_cast<float>(1 / sqrt(block.bias_correction2));
    eps = static_cast<float>(step.eps);
  }
};

template <class T>
GPU_KERNEL(256)
adam_kernel(const AdamStep step, float* master, float* m, float* v, const float* grad, T* compute,
            std::int64_t count, bool aligned) {
  const AdamScalars s(step);
  for_eights(count, aligned, [=](const Columns& at) {
    Eight p = load(master, at), m8 = load(m, at), v8 = load(v, at);
    const Eight g8 = load(grad, at);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float g = g8.v[i] * s.grad_scale + s.joined_decay * p.v[i];
      m8.v[i] = s.beta1 * m8.v[i] + s.rest1 * g;
      v8.v[i] = s.beta2 * v8.v[i] + s.rest2 * g * g;
      p.v[i] = p.v[i] * s.kept - s.rate * m8.v[i] / (sqrt(v8.v[i]) * s.root_scale + s.eps);
    }
    store(m, at, m8);
    store(v, at, v8);
    store(master, at, p);
    if (compute) store(compute, at, p);
  });
}

template <class T>
void adam(Queue& queue, const AdamStep& step, float* master, float* m, float* v, const float* grad,
          T* compute, std::int64_t count) {
  launch(queue, over((count + 7) / 8), adam_kernel<T>, step, master, m, v, grad, compute, count,
         rows_are_aligned(8, master, m, v, grad, compute));
}

template <class T>
GPU_KERNEL(256)
sgd_kernel(const SgdStep step, float* master, float* velocity, const float* grad, T* compute,
           std::int64_t count, bool aligned) {
  const auto rate = static_cast<float>(step.block->lr * step.lr_ratio);
  const auto scale = static_cast<float>(step.block->update_scale);
  const auto inertia = static_cast<float>(step.momentum);
  const auto decay = static_cast<float>(step.weight_decay);
  for_eights(count, aligned, [=](const Columns& at) {
    Eight p = load(master, at);
    Eight change = each([=](float g, float q) { return g * scale + decay * q; }, load(grad, at), p);
    if (velocity) {
      change =
          each([=](float old, float c) { return inertia * old + c; }, load(velocity, at), change);
      store(velocity, at, change);
    }
    p = each([=](float q, float c) { return q - rate * c; }, p, change);
    store(master, at, p);
    if (compute) store(compute, at, p);
  });
}

template <class T>
void sgd(Queue& queue, const SgdStep& step, float* master, float* velocity, const float* grad,
         T* compute, std::int64_t count) {
  launch(queue, over((count + 7) / 8), sgd_kernel<T>, step, master, velocity, grad, compute, count,
         rows_are_aligned(8, master, velocity, grad, compute));
}

// Returns -1, 0 or 1; NaN for NaN.
GPU_FN float sign(float x) {
  return x > 0 ? 1.0f : x < 0 ? -1.0f : x;
}

template <class T>
GPU_KERNEL(256)
lion_kernel(const LionStep step, float* master, float* m, const float* grad, T* compute,
            std::int64_t count, bool aligned) {
  const auto scale = static_cast<float>(step.block->update_scale);
  const double lr = step.block->lr * step.lr_ratio;
  const auto rate = static_cast<float>(lr);
  const auto kept = static_cast<float>(1 - lr * step.weight_decay);
  const auto beta1 = static_cast<float>(step.beta1), rest1 = static_cast<float>(1 - step.beta1);
  const auto beta2 = static_cast<float>(step.beta2), rest2 = static_cast<float>(1 - step.beta2);
  for_eights(count, aligned, [=](const Columns& at) {
    const Eight g = each([=](float v) { return v * scale; }, load(grad, at)), old = load(m, at);
    const Eight p = each(
        [=](float q, float o, float v) { return q * kept - rate * sign(beta1 * o + rest1 * v); },
        load(master, at), old, g);
    store(m, at, each([=](float o, float v) { return beta2 * o + rest2 * v; }, old, g));
    store(master, at, p);
    if (compute) store(compute, at, p);
  });
}

template <class T>
void lion(Queue& queue, const LionStep& step, float* master, float* m, const float* grad,
          T* compute, std::int64_t count) {
  launch(queue, over((count + 7) / 8), lion_kernel<T>, step, master, m, grad, compute, count,
         rows_are_aligned(8, master, m, grad, compute));
}

GPU_KERNEL(256)
momentum_kernel(const MomentumStep step, float* m, float* grad, std::int64_t count, bool aligned) {
  const auto scale = static_cast<float>(step.block->update_scale);
  const auto inertia = static_cast<float>(step.momentum);
  const auto rest = static_cast<float>(1 - step.momentum);
  for_eights(count, aligned, [=](const Columns& at) {
    const auto mixed = [=](float o, float v) { return inertia * o + rest * v; };
    const Eight g = each([=](float v) { return v * scale; }, load(grad, at));
    const Eight now = each(mixed, load(m, at), g);
    store(m, at, now);
    store(grad, at, step.nesterov ? each(mixed, now, g) : now);
  });
}

void momentum(Queue& queue, const MomentumStep& step, float* m, float* grad, std::int64_t count) {
  launch(queue, over((count + 7) / 8), momentum_kernel, step, m, grad, count,
         rows_are_aligned(8, m, grad));
}

template <class T>
GPU_KERNEL(256)
apply_direction_kernel(const DirectionStep step, float* master, const float* direction, T* compute,
                       std::int64_t count, bool aligned) {
  const double lr = step.block->lr * step.lr_ratio;
  const auto rate = static_cast<float>(lr), kept = static_cast<float>(1 - lr * step.weight_decay);
  for_eights(count, aligned, [=](const Columns& at) {
    const Eight p = each([=](float q, float d) { return q * kept - rate * d; }, load(master, at),
                         load(direction, at));
    store(master, at, p);
    if (compute) store(compute, at, p);
  });
}

template <class T>
void apply_direction(Queue& queue, const DirectionStep& step, float* master, const float* direction,
                     T* compute, std::int64_t count) {
  launch(queue, over((count + 7) / 8), apply_direction_kernel<T>, step, master, direction, compute,
         count, rows_are_aligned(8, master, direction, compute));
}

}  // namespace

template <class T>
void set_optimizer(Kernels<T>& table) {
  table.adam = adam<T>;
  table.sgd = sgd<T>;
  table.lion = lion<T>;
  table.momentum = momentum;
  table.apply_direction = apply_direction<T>;
}
TRIREME_GPU_INSTANTIATE(set_optimizer);

}  // namespace trireme::gpu
