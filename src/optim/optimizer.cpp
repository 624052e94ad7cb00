// AdamW, Adam and SGD with momentum over the parameters of a stage.
#include "optim/optimizer.h"

#include <cmath>
#include <cstring>

#include "backend/cpu/kernels.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "ops/support.h"

namespace trireme {

Optimizer::Optimizer(const Stage& stage, const OptimizerConfig& config)
    : stage_(stage),
      config_(config),
      sgd_(config.name == "sgd"),
      own_masters_(stage.definition().compute != stage.definition().accumulate()) {
  const std::int64_t bytes = stage.definition().parameter_elements() * size_of(dtype());
  memory_.add("master weights", own_masters_ ? bytes : 0);
  memory_.add(sgd_ ? "momentum" : "first moments", bytes);
  memory_.add("second moments", sgd_ ? 0 : bytes);
}

void Optimizer::allocate() {
  masters_ = MemoryBlock(memory_.regions[0].bytes);
  first_moments_ = MemoryBlock(memory_.regions[1].bytes);
  second_moments_ = MemoryBlock(memory_.regions[2].bytes);
}

void* Optimizer::master(int parameter) const {
  if (!own_masters_) return stage_.parameter(parameter);
  return masters_.data() + stage_.definition().parameters[parameter].offset * size_of(dtype());
}

void* Optimizer::moment(int parameter, int which) const {
  const MemoryBlock& block = which == 0 ? first_moments_ : second_moments_;
  return block.data() + stage_.definition().parameters[parameter].offset * size_of(dtype());
}

double Optimizer::gradient_norm() const {
  double sum = 0;
  const auto& parameters = stage_.definition().parameters;
  for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
    const std::int64_t count = parameters[p].spec.shape.count();
    const void* gradient = stage_.gradient(p);
    sum += dtype() == DType::f64
               ? cpu::kernels<double>().sum_of_squares(static_cast<const double*>(gradient), count)
               : cpu::kernels<float>().sum_of_squares(static_cast<const float*>(gradient), count);
  }
  return std::sqrt(sum);
}

template <class T>
void Optimizer::step_as(double lr, double gradient_scale) {
  using A = cpu::Acc<T>;
  const double t = static_cast<double>(steps_);
  const auto& parameters = stage_.definition().parameters;
  for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
    const ParameterSpec& spec = parameters[p].spec;
    const double decay = spec.decay ? config_.weight_decay : 0;
    auto* master_weights = static_cast<A*>(master(p));
    auto* first = static_cast<A*>(moment(p, 0));
    const auto* gradient = static_cast<const A*>(stage_.gradient(p));
    T* compute = own_masters_ ? static_cast<T*>(stage_.parameter(p)) : nullptr;
    if (sgd_) {
      cpu::kernels<T>().sgd(static_cast<float>(lr), static_cast<float>(config_.momentum),
                            static_cast<float>(decay), static_cast<float>(gradient_scale),
                            master_weights, first, gradient, compute, spec.shape.count());
      continue;
    }
    cpu::AdamStep adam{};
    adam.lr = static_cast<float>(lr);
    adam.beta1 = static_cast<float>(config_.beta1);
    adam.beta2 = static_cast<float>(config_.beta2);
    adam.eps = static_cast<float>(config_.eps);
    adam.weight_decay = static_cast<float>(decay);
    adam.bias_correction1 = static_cast<float>(1 - std::pow(config_.beta1, t));
    adam.bias_correction2 = static_cast<float>(1 - std::pow(config_.beta2, t));
    adam.grad_scale = static_cast<float>(gradient_scale);
    adam.decoupled = config_.name != "adam";
    cpu::kernels<T>().adam(adam, master_weights, first, static_cast<A*>(moment(p, 1)), gradient,
                           compute, spec.shape.count());
  }
}

void Optimizer::step(double lr, double gradient_scale) {
  ++steps_;
  ops::with_compute_type(stage_.definition().compute,
                         [&]<class T>(T) { step_as<T>(lr, gradient_scale); });
}

void Optimizer::initialize(std::int64_t seed) {
  const auto& parameters = stage_.definition().parameters;
  const auto fill = [&]<class A>(A* out, const Parameter& parameter) {
    const ParameterSpec& spec = parameter.spec;
    // Padding keeps the zeros that memory starts with.
    const std::int64_t count = spec.saved_shape.count();
    const std::uint64_t stream = hash64(parameter.name);
    parallel_ranges(count, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        out[i] = spec.init == ParameterSpec::Init::ones ? A{1}
                 : spec.init == ParameterSpec::Init::zeros
                     ? A{0}
                     : static_cast<A>(spec.init_std * normal(seed, stream, i));
      }
    });
  };
  for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
    if (dtype() == DType::f64) {
      fill(static_cast<double*>(master(p)), parameters[p]);
    } else {
      fill(static_cast<float*>(master(p)), parameters[p]);
    }
  }
  refresh_compute();
}

void Optimizer::refresh_compute() {
  if (!own_masters_) return;
  const auto& parameters = stage_.definition().parameters;
  for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
    ops::with_compute_type(stage_.definition().compute, [&]<class T>(T) {
      using A = cpu::Acc<T>;
      cpu::kernels<T>().cast_from_master(static_cast<T*>(stage_.parameter(p)),
                                         static_cast<const A*>(master(p)),
                                         parameters[p].spec.shape.count());
    });
  }
}

}  // namespace trireme
