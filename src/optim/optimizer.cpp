// AdamW, Adam and SGD with momentum over the parts of a stage's parameters that this rank owns.
#include "optim/optimizer.h"

#include <cmath>
#include <mutex>
#include <utility>

#include "backend/cpu/kernels.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "ops/support.h"
#include "parallel/narrow.h"

namespace trireme {
namespace {

// Blocks of a parameter whose squares are added up in one order: every slice begins at one.
constexpr std::int64_t square_block = 256;
constexpr std::int64_t square_grain = square_block * 256;

// Elements of a state in bf16 that are widened, updated and narrowed at a time.
constexpr std::int64_t widened_block = 1 << 18;

template <class A>
double sum_of_squares(const A* gradient, std::int64_t count) {
  return cpu::kernels<A>().sum_of_squares(gradient, count);
}

double sum_of_squares(const bf16* gradient, std::int64_t count) {
  float wide[square_block];
  for (std::int64_t i = 0; i < count; ++i) wide[i] = static_cast<float>(gradient[i]);
  return sum_of_squares(wide, count);
}

template <class G>
void add_squares_of(ExactSum& total, const G* gradient, std::int64_t count) {
  std::mutex mutex;
  parallel_ranges(count, square_grain, [&](std::int64_t begin, std::int64_t end) {
    ExactSum sum;
    for (std::int64_t i = begin; i < end; i += square_block)
      sum.add(sum_of_squares(gradient + i, std::min(square_block, end - i)));
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
  masters_ = MemoryBlock(memory_.regions[0].bytes);
  first_moments_ = MemoryBlock(memory_.regions[1].bytes);
  second_moments_ = MemoryBlock(memory_.regions[2].bytes);
  widened_ = MemoryBlock(memory_.regions[3].bytes);
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

void Optimizer::add_squares(ExactSum& sum,
                            const std::function<bool(const ParameterSpec&)>& counts) const {
  for (const OwnedSlice& slice : layout_.owned()) {
    if (!counts(spec(slice))) continue;
    const auto add = [&]<class G>(G) {
      add_squares_of(sum, reinterpret_cast<const G*>(gradient(slice)), slice.count());
    };
    switch (gradients_.dtype()) {
      case DType::f64:
        add(double{});
        break;
      case DType::bf16:
        add(bf16{});
        break;
      default:
        add(float{});
    }
  }
}

template <class T>
void Optimizer::update(const OwnedSlice& slice, const Rule& rule) {
  if (widened_.bytes() == 0) return update_block<T>(slice, rule);
  for (std::int64_t begin = 0; begin < slice.count(); begin += widened_block) {
    OwnedSlice block = slice;
    block.begin += begin;
    block.end = std::min(block.begin + widened_block, slice.end);
    block.offset += begin;
    update_block<T>(block, rule);
  }
}

template <class T>
void Optimizer::update_block(const OwnedSlice& slice, const Rule& rule) {
  using A = cpu::Acc<T>;
  const std::int64_t count = slice.count();
  // A state in the type of arithmetic: where it lies, or widened.
  auto* free = widened_.as<float>();
  const auto wide = [&](DType stored, const std::byte* at) {
    if (stored != DType::bf16) return reinterpret_cast<A*>(const_cast<std::byte*>(at));
    float* copy = std::exchange(free, free + widened_block);
    widen(copy, reinterpret_cast<const bf16*>(at), count);
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
    const cpu::SgdStep sgd{rule.lr, config_.momentum, decay, rule.gradient_scale};
    cpu::kernels<T>().sgd(sgd, weights, moment_values[0], grad, compute, count);
  } else {
    const double t = static_cast<double>(steps_);
    cpu::AdamStep adam{};
    adam.lr = rule.lr;
    adam.beta1 = config_.beta1;
    adam.beta2 = config_.beta2;
    adam.eps = config_.eps;
    adam.weight_decay = decay;
    adam.bias_correction1 = 1 - std::pow(config_.beta1, t);
    adam.bias_correction2 = 1 - std::pow(config_.beta2, t);
    adam.grad_scale = rule.gradient_scale;
    adam.decoupled = config_.name != "adam";
    cpu::kernels<T>().adam(adam, weights, moment_values[0], moment_values[1], grad, compute, count);
  }
  if (moment_dtype_ != DType::bf16) return;
  // The name and the element's place in its parameter, not in this rank's part of a bucket.
  const auto stream =
      static_cast<std::uint32_t>(hash64(stage_.definition().parameters[slice.parameter].name));
  for (int m = 0; m < moments(); ++m) {
    const std::uint64_t key = rounding_key(rule.seed, static_cast<std::uint64_t>(steps_), stream,
                                           static_cast<std::uint32_t>(m));
    narrow(reinterpret_cast<bf16*>(moment(slice, m)),
           reinterpret_cast<const float*>(moment_values[m]), count, key, slice.begin);
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

void Optimizer::step(double lr, double gradient_scale, std::uint64_t seed) {
  ++steps_;
  const Rule rule{lr, gradient_scale, seed};
  ops::with_compute_type(stage_.definition().compute, [&]<class T>(T) {
    for_each_slice([&](const OwnedSlice& slice) { update<T>(slice, rule); });
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
