// AdamW, Adam and SGD with momentum over the parts of a stage's parameters that this rank owns.
#include "optim/optimizer.h"

#include <cmath>
#include <utility>

#include "backend/device.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/thread_pool.h"

namespace trireme {
namespace {

// Elements of a state in bf16 that are widened, updated and narrowed at a time.
constexpr std::int64_t widened_block = 1 << 18;

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
      own_masters_(stage.definition().compute != stage.definition().accumulate()),
      moment_dtype_(config.moment_dtype == "bf16" ? DType::bf16 : dtype()) {
  const std::int64_t elements = layout.state_elements();
  const std::int64_t moment_bytes = elements * size_of(moment_dtype_);
  memory_.add("master weights", own_masters_ ? elements * size_of(dtype()) : 0);
  memory_.add(sgd_ ? "momentum" : "first moments", moment_bytes);
  memory_.add("second moments", sgd_ ? 0 : moment_bytes);
  const int narrow_states =
      (gradients.dtype() == DType::bf16 ? 1 : 0) + (moment_dtype_ == DType::bf16 ? moments() : 0);
  memory_.add("widened states", narrow_states * widened_block * size_of(DType::f32));
}

void Optimizer::allocate() {
  Device& device = stage_.device();
  masters_ = MemoryBlock(device, memory_.regions[0].bytes, memory_.regions[0].name);
  first_moments_ = MemoryBlock(device, memory_.regions[1].bytes, memory_.regions[1].name);
  second_moments_ = MemoryBlock(device, memory_.regions[2].bytes, memory_.regions[2].name);
  widened_ = MemoryBlock(device, memory_.regions[3].bytes, memory_.regions[3].name);
}

std::int64_t Optimizer::state_element(const OwnedSlice& slice) const {
  return layout_.state_begin(slice.bucket) + slice.offset;
}

const std::byte* Optimizer::gradient(const OwnedSlice& slice) const {
  return gradients_.part(slice.bucket) + slice.offset * size_of(gradients_.dtype());
}

std::byte* Optimizer::master(const OwnedSlice& slice) const {
  if (own_masters_) return masters_.data() + state_element(slice) * size_of(dtype());
  return parameters_.part(slice.bucket) + slice.offset * size_of(dtype());
}

std::byte* Optimizer::moment(const OwnedSlice& slice, int which) const {
  return (which == 0 ? first_moments_ : second_moments_).data() +
         state_element(slice) * size_of(moment_dtype_);
}

void Optimizer::add_squares(ExactSum* sum,
                            const std::function<bool(const ParameterSpec&)>& counts) const {
  Device& device = stage_.device();
  Queue& queue = device.queue();
  for (const OwnedSlice& slice : layout_.owned()) {
    if (!counts(spec(slice))) continue;
    const std::byte* all = gradient(slice);
    if (gradients_.dtype() == DType::f64) {
      device.kernels<double>().add_squares(queue, sum, reinterpret_cast<const double*>(all),
                                           slice.count());
    } else if (gradients_.dtype() == DType::f32) {
      device.kernels<float>().add_squares(queue, sum, reinterpret_cast<const float*>(all),
                                          slice.count());
    } else {
      for (std::int64_t i = 0; i < slice.count(); i += widened_block) {
        const std::int64_t count = std::min(widened_block, slice.count() - i);
        device.state_kernels().widen(queue, widened_.as<float>(),
                                     reinterpret_cast<const bf16*>(all) + i, count);
        device.kernels<float>().add_squares(queue, sum, widened_.as<float>(), count);
      }
    }
  }
}

template <class T>
void Optimizer::update(const OwnedSlice& slice, const StepBlock* step) {
  if (widened_.bytes() == 0) return update_block<T>(slice, step);
  for (std::int64_t begin = 0; begin < slice.count(); begin += widened_block) {
    OwnedSlice block = slice;
    block.begin += begin;
    block.end = std::min(block.begin + widened_block, slice.end);
    block.offset += begin;
    update_block<T>(block, step);
  }
}

template <class T>
void Optimizer::update_block(const OwnedSlice& slice, const StepBlock* step) {
  using A = Acc<T>;
  Device& device = stage_.device();
  Queue& queue = device.queue();
  const std::int64_t count = slice.count();
  // A state in the type of arithmetic: where it lies, or widened.
  auto* free = widened_.as<float>();
  const auto wide = [&](DType stored, const std::byte* at) {
    if (stored != DType::bf16) return reinterpret_cast<A*>(const_cast<std::byte*>(at));
    float* copy = std::exchange(free, free + widened_block);
    device.state_kernels().widen(queue, copy, reinterpret_cast<const bf16*>(at), count);
    return reinterpret_cast<A*>(copy);
  };
  const double decay = spec(slice).decay ? config_.weight_decay : 0;
  auto* weights = reinterpret_cast<A*>(master(slice));
  T* compute =
      own_masters_ ? reinterpret_cast<T*>(parameters_.part(slice.bucket)) + slice.offset : nullptr;
  const A* grad = wide(gradients_.dtype(), gradient(slice));
  A* moment_values[2] = {};
  for (int m = 0; m < moments(); ++m) moment_values[m] = wide(moment_dtype_, moment(slice, m));
  if (sgd_) {
    const SgdStep sgd{step, config_.momentum, decay};
    device.kernels<T>().sgd(queue, sgd, weights, moment_values[0], grad, compute, count);
  } else {
    const AdamStep adam{.block = step,
                        .beta1 = config_.beta1,
                        .beta2 = config_.beta2,
                        .eps = config_.eps,
                        .weight_decay = decay,
                        .decoupled = config_.name != "adam"};
    device.kernels<T>().adam(queue, adam, weights, moment_values[0], moment_values[1], grad,
                             compute, count);
  }
  if (moment_dtype_ != DType::bf16) return;
  // The name and the element's place in its parameter, not in this rank's part of a bucket.
  const auto stream =
      static_cast<std::uint32_t>(hash64(stage_.definition().parameters[slice.parameter].name));
  for (int m = 0; m < moments(); ++m) {
    const Rounding rounding{.block = step,
                            .counter = Rounding::Counter::updates,
                            .stream = stream,
                            .use = static_cast<std::uint32_t>(m)};
    device.state_kernels().narrow(queue, reinterpret_cast<bf16*>(moment(slice, m)),
                                  reinterpret_cast<const float*>(moment_values[m]), count, rounding,
                                  slice.begin);
  }
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

void Optimizer::describe_next_step(StepBlock& block) const {
  block.updates = static_cast<std::uint64_t>(steps_ + 1);
  const double t = static_cast<double>(steps_ + 1);
  block.bias_correction1 = 1 - std::pow(config_.beta1, t);
  block.bias_correction2 = 1 - std::pow(config_.beta2, t);
}

void Optimizer::step(const StepBlock* block) {
  ++steps_;
  with_compute_type(stage_.definition().compute, [&]<class T>(T) {
    for_each_slice([&](const OwnedSlice& slice) { update<T>(slice, block); });
  });
}

void Optimizer::initialize(std::int64_t seed) {
  const auto stream = static_cast<std::uint64_t>(seed);
  for (const OwnedSlice& slice : layout_.owned()) {
    const Parameter& parameter = stage_.definition().parameters[slice.parameter];
    const auto write = [&](std::byte* host) {
      if (dtype() == DType::f64) {
        fill(reinterpret_cast<double*>(host), parameter, slice, stream);
      } else {
        fill(reinterpret_cast<float*>(host), parameter, slice, stream);
      }
    };
    stage_.device().write(master(slice), slice.count() * size_of(dtype()), write);
  }
  refresh_compute();
}

void Optimizer::refresh_compute() {
  with_compute_type(stage_.definition().compute, [&]<class T>(T) {
    using A = Acc<T>;
    for_each_slice([&](const OwnedSlice& slice) {
      if (!own_masters_) return;
      stage_.device().kernels<T>().cast_from_master(
          stage_.device().queue(),
          reinterpret_cast<T*>(parameters_.part(slice.bucket)) + slice.offset,
          reinterpret_cast<const A*>(master(slice)), slice.count());
    });
  });
}

}  // namespace trireme
