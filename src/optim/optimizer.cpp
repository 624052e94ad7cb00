// AdamW, Adam and SGD with momentum over the parts of a stage's parameters that this rank owns.
#include "optim/optimizer.h"

#include <cmath>
#include <mutex>

#include "backend/cpu/kernels.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "ops/support.h"

namespace trireme {
namespace {

// Blocks of a parameter whose squares are added up in one order: every slice begins at one.
constexpr std::int64_t square_block = 256;
constexpr std::int64_t square_grain = square_block * 256;

template <class A>
void add_squares_of(ExactSum& total, const A* gradient, std::int64_t count) {
  std::mutex mutex;
  parallel_ranges(count, square_grain, [&](std::int64_t begin, std::int64_t end) {
    ExactSum sum;
    for (std::int64_t i = begin; i < end; i += square_block) {
      sum.add(cpu::kernels<A>().sum_of_squares(gradient + i, std::min(square_block, end - i)));
    }
    const std::lock_guard lock(mutex);
    total.add(sum);
  });
}

// The element of the whole parameter that is element `i` of this rank's part, or -1 for padding.
class GlobalElement {
 public:
  explicit GlobalElement(const ParameterSpec& spec)
      : spec_(spec),
        columns_(spec.shape.rank() > 1 ? spec.shape[1] : 1),
        all_columns_(spec.saved_shape.rank() > 1 ? spec.saved_shape[1] : 1) {}

  std::int64_t operator()(std::int64_t i) const {
    const std::int64_t local = i / columns_;
    std::int64_t row = local;
    for (const RowPiece& piece : spec_.pieces) {
      if (local >= piece.local_row) row = piece.row + local - piece.local_row;
    }
    if (row >= spec_.saved_shape[0]) return -1;
    return row * all_columns_ + spec_.first_column + i % columns_;
  }

 private:
  const ParameterSpec& spec_;
  std::int64_t columns_, all_columns_;
};

template <class A>
void fill(A* out, const Parameter& parameter, const OwnedSlice& slice, std::uint64_t seed) {
  const ParameterSpec& spec = parameter.spec;
  const GlobalElement element(spec);
  const std::uint64_t stream = hash64(parameter.name);
  parallel_ranges(slice.count(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t global = element(slice.begin + i);
      double value = 0;  // padding and biases
      if (global >= 0 && spec.init == ParameterSpec::Init::ones) value = 1;
      if (global >= 0 && spec.init == ParameterSpec::Init::normal) {
        value = spec.init_std * normal(seed, stream, static_cast<std::uint64_t>(global));
      }
      out[i] = static_cast<A>(value);
    }
  });
}

}  // namespace

Optimizer::Optimizer(const Stage& stage, const StateLayout& layout, Parameters& parameters,
                     const Gradients& gradients, const OptimizerConfig& config)
    : stage_(stage),
      layout_(layout),
      parameters_(parameters),
      gradients_(gradients),
      config_(config),
      sgd_(config.name == "sgd"),
      own_masters_(stage.definition().compute != stage.definition().accumulate()) {
  const std::int64_t bytes = layout.state_elements() * size_of(dtype());
  memory_.add("master weights", own_masters_ ? bytes : 0);
  memory_.add(sgd_ ? "momentum" : "first moments", bytes);
  memory_.add("second moments", sgd_ ? 0 : bytes);
}

void Optimizer::allocate() {
  masters_ = MemoryBlock(memory_.regions[0].bytes);
  first_moments_ = MemoryBlock(memory_.regions[1].bytes);
  second_moments_ = MemoryBlock(memory_.regions[2].bytes);
}

std::int64_t Optimizer::state_offset(const OwnedSlice& slice) const {
  return (layout_.state_begin(slice.bucket) + slice.offset) * size_of(dtype());
}

std::byte* Optimizer::master(const OwnedSlice& slice) const {
  if (own_masters_) return masters_.data() + state_offset(slice);
  return parameters_.part(slice.bucket) + slice.offset * size_of(dtype());
}

std::byte* Optimizer::moment(const OwnedSlice& slice, int which) const {
  return (which == 0 ? first_moments_ : second_moments_).data() + state_offset(slice);
}

void Optimizer::add_squares(ExactSum& sum,
                            const std::function<bool(const ParameterSpec&)>& counts) const {
  for (const OwnedSlice& slice : layout_.owned()) {
    if (!counts(spec(slice))) continue;
    const std::byte* gradient = gradients_.part(slice.bucket) + slice.offset * size_of(dtype());
    if (dtype() == DType::f64) {
      add_squares_of(sum, reinterpret_cast<const double*>(gradient), slice.count());
    } else {
      add_squares_of(sum, reinterpret_cast<const float*>(gradient), slice.count());
    }
  }
}

template <class T>
void Optimizer::update(const OwnedSlice& slice, double lr, double gradient_scale) {
  using A = cpu::Acc<T>;
  const double t = static_cast<double>(steps_);
  const double decay = spec(slice).decay ? config_.weight_decay : 0;
  auto* weights = reinterpret_cast<A*>(master(slice));
  auto* first = reinterpret_cast<A*>(moment(slice, 0));
  const auto* gradient =
      reinterpret_cast<const A*>(gradients_.part(slice.bucket) + slice.offset * sizeof(A));
  T* compute =
      own_masters_ ? reinterpret_cast<T*>(parameters_.part(slice.bucket)) + slice.offset : nullptr;
  if (sgd_) {
    const cpu::SgdStep sgd{lr, config_.momentum, decay, gradient_scale};
    cpu::kernels<T>().sgd(sgd, weights, first, gradient, compute, slice.count());
    return;
  }
  cpu::AdamStep adam{};
  adam.lr = lr;
  adam.beta1 = config_.beta1;
  adam.beta2 = config_.beta2;
  adam.eps = config_.eps;
  adam.weight_decay = decay;
  adam.bias_correction1 = 1 - std::pow(config_.beta1, t);
  adam.bias_correction2 = 1 - std::pow(config_.beta2, t);
  adam.grad_scale = gradient_scale;
  adam.decoupled = config_.name != "adam";
  cpu::kernels<T>().adam(adam, weights, first, reinterpret_cast<A*>(moment(slice, 1)), gradient,
                         compute, slice.count());
}

template <class Body>
void Optimizer::for_each_slice(const Body& body) {
  int done = 0;  // buckets
  for (const OwnedSlice& slice : layout_.owned()) {
    while (done < slice.bucket) parameters_.publish(done++);
    body(slice);
  }
  while (done < layout_.buckets()) parameters_.publish(done++);
  parameters_.finish();
}

void Optimizer::step(double lr, double gradient_scale) {
  ++steps_;
  ops::with_compute_type(stage_.definition().compute, [&]<class T>(T) {
    for_each_slice([&](const OwnedSlice& slice) { update<T>(slice, lr, gradient_scale); });
  });
}

void Optimizer::initialize(std::int64_t seed) {
  const auto stream = static_cast<std::uint64_t>(seed);
  for (const OwnedSlice& slice : layout_.owned()) {
    const Parameter& parameter = stage_.definition().parameters[slice.parameter];
    if (dtype() == DType::f64) {
      fill(reinterpret_cast<double*>(master(slice)), parameter, slice, stream);
    } else {
      fill(reinterpret_cast<float*>(master(slice)), parameter, slice, stream);
    }
  }
  refresh_compute();
}

void Optimizer::refresh_compute() {
  ops::with_compute_type(stage_.definition().compute, [&]<class T>(T) {
    using A = cpu::Acc<T>;
    for_each_slice([&](const OwnedSlice& slice) {
      if (!own_masters_) return;
      cpu::kernels<T>().cast_from_master(
          reinterpret_cast<T*>(parameters_.part(slice.bucket)) + slice.offset,
          reinterpret_cast<const A*>(master(slice)), slice.count());
    });
  });
}

}  // namespace trireme
