// One step of Adam or SGD on a range of parameters, with the cast of the compute copy.
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

// The rule's scalars, which follow from the step's.
struct AdamScalars {
  float grad_scale, joined_decay, kept, beta1, beta2, rest1, rest2, rate, root_scale, eps;

  GPU_FN explicit AdamScalars(const AdamStep& step) {
    const StepBlock& block = *step.block;
    grad_scale = static_cast<float>(block.update_scale);
    joined_decay = static_cast<float>(step.decoupled ? 0.0 : step.weight_decay);
    kept = static_cast<float>(step.decoupled ? 1 - block.lr * step.weight_decay : 1.0);
    beta1 = static_cast<float>(step.beta1);
    beta2 = static_cast<float>(step.beta2);
    rest1 = static_cast<float>(1 - step.beta1);
    rest2 = static_cast<float>(1 - step.beta2);
    rate = static_cast<float>(block.lr / block.bias_correction1);
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
  const auto rate = static_cast<float>(step.block->lr);
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

}  // namespace

template <class T>
void set_optimizer(Kernels<T>& table) {
  table.adam = adam<T>;
  table.sgd = sgd<T>;
}
TRIREME_GPU_INSTANTIATE(set_optimizer);

}  // namespace trireme::gpu
