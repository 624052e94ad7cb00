// The step on this rank's share of a stage's parameters, by each parameter's rule.
#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/device.h"
#include "base/divide.h"
#include "base/hash.h"
#include "base/portable_math.h"
#include "base/random.h"
#include "base/thread_pool.h"

namespace trireme {
namespace {

// Number of elements of a bf16 state that are widened, updated and narrowed at a time.
constexpr std::int64_t widened_block = 1 << 18;

// Maps element `i` of this rank's part to the full parameter, or to -1 for padding.
class GlobalElement {
 public:
  explicit GlobalElement(const ParameterSpec& spec)
      : spec_(spec),
        columns_(spec.shape.rank() > 1 ? spec.shape[1] : 1),
        all_columns_(spec.saved_shape.rank() > 1 ? spec.saved_shape[1] : 1) {}

  std::int64_t operator()(std::int64_t i) const {
    const std::int64_t local = i / columns_;
    std::int64_t row = local;
    // The last piece that begins at or before it.
    const auto after = std::ranges::upper_bound(spec_.pieces, local, {}, &RowPiece::local_row);
    if (after != spec_.pieces.begin()) row = after[-1].row + local - after[-1].local_row;
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
        const auto index = static_cast<std::uint64_t>(global);
        value = spec.init_std * (math::is_portable() ? math::own_normal(seed, stream, index)
                                                     : normal(seed, stream, index));
      }
      if (global >= 0 && spec.init == ParameterSpec::Init::log_uniform) {
        value = math::log(0.01 + 15.99 * uniform(seed, stream, static_cast<std::uint64_t>(global)));
      }
      out[i] = static_cast<A>(value);
    }
  });
}

// Number of elements of a range to update. Muon's kernels may round the last few elements of a
// range differently from all others, since they contract two products and their sum. If leaves
// determine which elements are the last ones, the range ends with a whole vector, in the padding
// behind them.
std::int64_t whole_vectors(const ParameterSpec& spec, std::int64_t count) {
  constexpr std::int64_t longest = 64;
  const bool is_cut = spec.squares_at_once < ParameterSpec{}.squares_at_once;
  return is_cut ? round_up(count, longest) : count;
}

}  // namespace

Optimizer::Optimizer(const Stage& stage, const StateLayout& layout, Parameters& parameters,
                     const Gradients& gradients, const OptimizerConfig& config,
                     const OffloadOptions& offload, double width)
    : stage_(stage),
      layout_(layout),
      parameters_(parameters),
      gradients_(gradients),
      config_(config),
      entry_(entry_of(config.name)),
      rest_(entry_.whole_matrices ? entry_of(rule_of(entry_.kind).rest) : entry_),
      width_(width),
      moment_dtype_(config.moment_dtype == StateType::bf16 ? DType::bf16 : dtype()),
      states_(layout, state_kinds(), offload) {
  layer_of_.assign(stage.definition().parameters.size(), -1);
  for (const SegmentInstance& segment : stage.definition().segments)
    for (const int parameter : segment.parameters)
      layer_of_[static_cast<std::size_t>(parameter)] = segment.layer;
  memory_ = states_.memory();
  const int narrow_states =
      (gradients.dtype() == DType::bf16 ? 1 : 0) +
      (moment_dtype_ == DType::bf16 ? std::max(entry_.moments, rest_.moments) : 0);
  memory_.add("widened states", narrow_states * widened_block * size_of(DType::f32));
  if (entry_.whole_matrices) {
    auto step =
        rule_of(entry_.kind).matrix_step(stage.device(), stage.definition().compute, config_);
    matrices_ = std::make_unique<WholeMatrices>(stage, layout, gradients, std::move(step));
    memory_.add("whole matrices", matrices_->bytes());
  }
}

void Optimizer::allocate(const Groups& groups) {
  Device& device = stage_.device();
  const auto block = [&](std::size_t region) {
    return MemoryBlock(device, memory_.regions[region].bytes, memory_.regions[region].name);
  };
  states_.allocate(device);
  const std::size_t next = states_.memory().regions.size();
  widened_ = block(next);
  if (!matrices_) return;
  whole_ = block(next + 1);
  matrices_->allocate(whole_.data(), groups);
}

bool Optimizer::is_matrix(int parameter) const {
  return entry_.whole_matrices &&
         !stage_.definition().parameters[parameter].spec.matrix_rows.empty();
}

StateKinds Optimizer::state_kinds() const {
  StateKinds kinds;
  kinds.masters = stage_.definition().compute != dtype() || parameters_.elsewhere();
  kinds.master_dtype = dtype();
  kinds.moment_dtype = moment_dtype_;
  if (entry_.moments == 1 && !entry_.whole_matrices) kinds.first_moment_name = "momentum";
  kinds.moments.resize(static_cast<std::size_t>(layout_.buckets()), 1);
  const auto& parameters = stage_.definition().parameters;
  for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
    int& kept = kinds.moments[static_cast<std::size_t>(layout_.bucket_of(p))];
    kept = std::max(kept, moments(p));
  }
  return kinds;
}

const std::byte* Optimizer::gradient(const OwnedSlice& slice) const {
  return gradients_.part(slice.bucket) + slice.offset * size_of(gradients_.dtype());
}

std::byte* Optimizer::master(const OwnedSlice& slice) const {
  if (states_.kinds().masters) return states_.at(StateArray::master, slice);
  return parameters_.part(slice.bucket) + slice.offset * size_of(dtype());
}

std::byte* Optimizer::moment(const OwnedSlice& slice, int which) const {
  return states_.at(moment_array(which), slice);
}

void Optimizer::add_squares(ExactSum* sum,
                            const std::function<bool(const ParameterSpec&)>& counts) const {
  Device& device = stage_.device();
  Queue& queue = device.queue();
  for (const OwnedSlice& slice : layout_.owned()) {
    // Rows shared with other ranks are counted on one of them only.
    const std::int64_t own = std::min(slice.end, spec(slice).owned_count()) - slice.begin;
    if (own <= 0 || !counts(spec(slice))) continue;
    const std::byte* all = gradient(slice);
    if (gradients_.dtype() == DType::f64) {
      device.kernels<double>().add_squares(queue, sum, reinterpret_cast<const double*>(all), own,
                                           square_block);
    } else if (gradients_.dtype() == DType::f32) {
      device.kernels<float>().add_squares(queue, sum, reinterpret_cast<const float*>(all), own,
                                          spec(slice).squares_at_once);
    } else {
      for (std::int64_t i = 0; i < own; i += widened_block) {
        const std::int64_t count = std::min(widened_block, own - i);
        device.state_kernels().widen(queue, widened_.as<float>(),
                                     reinterpret_cast<const bf16*>(all) + i, count);
        device.kernels<float>().add_squares(queue, sum, widened_.as<float>(), count, square_block);
      }
    }
  }
}

template <class Body>
void Optimizer::for_each_piece(const OwnedSlice& slice, const Body& body) {
  const std::int64_t most = widened_.bytes() > 0 ? widened_block : slice.count();
  OwnedSlice piece = slice;
  for (; piece.begin < slice.end; piece.offset += piece.count(), piece.begin = piece.end) {
    const std::int64_t count = std::min(most, states_.left_in_block(piece));
    piece.end = std::min(slice.end, piece.begin + count);
    states_.enter(piece);
    body(piece);
  }
}

std::vector<unsigned> Optimizer::arrays(unsigned mask) const {
  std::vector<unsigned> seen(static_cast<std::size_t>(layout_.buckets()));
  for (int bucket = 0; bucket < layout_.buckets(); ++bucket) {
    for (const StateArray array :
         {StateArray::master, StateArray::first_moment, StateArray::second_moment}) {
      if (states_.has(array, bucket))
        seen[static_cast<std::size_t>(bucket)] |= mask & bit_of(array);
    }
  }
  return seen;
}

// The direction of an unsharded 2-D parameter needs its momentum, its update the master weights.
std::vector<unsigned> Optimizer::arrays(Phase phase) const {
  std::vector<unsigned> seen = arrays(~0U);
  std::vector<bool> of_matrices(seen.size());
  for (const OwnedSlice& slice : layout_.owned())
    if (is_matrix(slice.parameter)) of_matrices[static_cast<std::size_t>(slice.bucket)] = true;
  for (std::size_t bucket = 0; bucket < seen.size(); ++bucket) {
    if (phase == Phase::direct) {
      seen[bucket] &= of_matrices[bucket] ? ~bit_of(StateArray::master) : 0U;
    } else if (of_matrices[bucket]) {
      seen[bucket] &= bit_of(StateArray::master);
    }
  }
  return seen;
}

void Optimizer::update(const OwnedSlice& slice, const StepBlock* step, Phase phase) {
  for_each_piece(slice, [&](const OwnedSlice& piece) {
    const TraceSpan span(trace_, phase == Phase::direct ? "direct" : "update", 0, slice.bucket);
    if (spec(piece).counts != ParameterSpec::Counts::nothing) return balance(piece);
    update_block(piece, step, phase);
  });
}

void Optimizer::update_block(const OwnedSlice& slice, const StepBlock* step, Phase phase) {
  Device& device = stage_.device();
  Queue& queue = device.queue();
  const std::int64_t count = slice.count();
  // Returns a state in the arithmetic type: in place, or widened.
  auto* free = widened_.as<float>();
  const auto wide = [&](DType stored, const std::byte* at) -> void* {
    if (stored != DType::bf16) return const_cast<std::byte*>(at);
    float* copy = std::exchange(free, free + widened_block);
    device.state_kernels().widen(queue, copy, reinterpret_cast<const bf16*>(at), count);
    return copy;
  };
  const UpdateRule& rule = rule_of(entry_for(slice.parameter).kind);
  UpdateRange range{};
  range.block = step;
  range.decay = decay_of(spec(slice));
  scale_by_width(range, slice.parameter);
  const bool needs_master = phase == Phase::update;
  if (needs_master) range.master = master(slice);
  if (needs_master && states_.kinds().masters) {
    range.copy =
        parameters_.part(slice.bucket) + slice.offset * size_of(stage_.definition().compute);
  }
  range.gradient = wide(gradients_.dtype(), gradient(slice));
  range.count = rule.direct ? whole_vectors(spec(slice), count) : count;
  // Moments of unsharded 2-D parameters are used only for the direction.
  const bool has_moments = !rule.direct || phase == Phase::direct;
  for (int m = 0; has_moments && m < moments(slice.parameter); ++m)
    range.moments[m] = wide(moment_dtype_, moment(slice, m));
  const DType compute = stage_.definition().compute;
  (phase == Phase::direct ? rule.direct : rule.update)(device, compute, config_, range);
  if (clip_ && phase == Phase::update) clip_rows(slice);
  if (has_moments && moment_dtype_ == DType::bf16) store_moments(slice, step, range.moments);
  if (phase == Phase::direct && gradients_.dtype() == DType::bf16) {
    device.kernels<bf16>().cast_from_master(
        queue, reinterpret_cast<bf16*>(const_cast<std::byte*>(gradient(slice))),
        static_cast<const float*>(range.gradient), count);
  }
}

double Optimizer::decay_of(const ParameterSpec& spec) const {
  const bool decays =
      spec.decay || config_.decay_vectors || (config_.decay_qk_norms && spec.is_qk_norm);
  return decays ? config_.weight_decay : 0;
}

// Maximal-update parametrization (Yang et al. 2022, table 8, and appendix B.3 on epsilon) as in
// Megatron-Core: whole matrices keep their rate, whose own scales depend on shapes.
void Optimizer::scale_by_width(UpdateRange& range, int parameter) const {
  const ParameterSpec& spec = stage_.definition().parameters[parameter].spec;
  const bool is_hidden = spec.saved_shape.rank() > 1 && !spec.is_table;
  const OptimizerKind kind = entry_for(parameter).kind;
  if (kind == OptimizerKind::sgd) {
    if (!is_hidden) range.lr_ratio = width_;
  } else if (is_hidden && !is_matrix(parameter)) {
    range.lr_ratio = 1 / width_;
    if (is_adam(kind)) range.eps_ratio = 1 / width_;
  }
}

// Scales rows of a query or key projection, and writes the compute copy again.
void Optimizer::clip_rows(const OwnedSlice& slice) {
  const ParameterSpec& s = spec(slice);
  if (s.clip_rows.empty()) return;
  const GlobalElement element(s);
  const std::int64_t columns = s.shape[1];
  with_compute_type(stage_.definition().compute, [&]<class T>(T) {
    using A = Acc<T>;
    Device& device = stage_.device();
    auto* const kept = reinterpret_cast<A*>(master(slice));
    bool changed = false;
    for (std::int64_t i = slice.begin, end = 0; i < slice.end; i = end) {
      end = std::min(slice.end, (i / columns + 1) * columns);
      const double factor = clip_->factor(s, layer_of_[static_cast<std::size_t>(slice.parameter)],
                                          element(i) / s.saved_shape[1]);
      if (factor == 1) continue;
      A* const row = kept + (i - slice.begin);
      device.kernels<A>().scale(device.queue(), row, row, end - i, factor);
      changed = true;
    }
    if (!changed || !states_.kinds().masters) return;
    device.kernels<T>().cast_from_master(
        device.queue(), reinterpret_cast<T*>(parameters_.part(slice.bucket)) + slice.offset, kept,
        slice.count());
  });
}

void Optimizer::store_moments(const OwnedSlice& slice, const StepBlock* step, void* const* values) {
  // Uses the name and the element's index in its full parameter, not in this rank's part of a
  // bucket or among its experts.
  const std::int64_t begin = slice.begin + spec(slice).expert_elements_before;
  const auto stream =
      static_cast<std::uint32_t>(hash64(stage_.definition().parameters[slice.parameter].name));
  for (int m = 0; m < moments(slice.parameter); ++m) {
    const Rounding rounding{.block = step,
                            .counter = Rounding::Counter::updates,
                            .stream = stream,
                            .use = static_cast<std::uint32_t>(m)};
    Device& device = stage_.device();
    device.state_kernels().narrow(device.queue(), reinterpret_cast<bf16*>(moment(slice, m)),
                                  static_cast<const float*>(values[m]), slice.count(), rounding,
                                  begin);
  }
}

// Updates a router's bias or load; with so few experts, no cut between ranks or blocks goes through
// it (ShardOptions::grain).
void Optimizer::balance(const OwnedSlice& slice) {
  TRIREME_CHECK(slice.begin == 0 && slice.count() == spec(slice).shape.count());
  with_compute_type(stage_.definition().compute, [&]<class T>(T) {
    using A = Acc<T>;
    T* compute = states_.kinds().masters
                     ? reinterpret_cast<T*>(parameters_.part(slice.bucket)) + slice.offset
                     : nullptr;
    auto* const kept = reinterpret_cast<A*>(master(slice));
    const auto* const choices = reinterpret_cast<const A*>(gradient(slice));
    Queue& queue = stage_.device().queue();
    const Kernels<T>& kernels = stage_.device().kernels<T>();
    if (spec(slice).counts == ParameterSpec::Counts::load)
      kernels.update_router_load(queue, kept, compute, choices, slice.count());
    else
      kernels.update_router_bias(queue, kept, compute, choices, spec(slice).balance_rate,
                                 slice.count());
  });
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
  block.bias_correction1 = 1 - math::pow(config_.beta1, t);
  block.bias_correction2 = 1 - math::pow(config_.beta2, t);
}

// Does nothing if expect_step() has already done it.
void Optimizer::begin_phase(Phase phase) {
  if (!std::exchange(expected_, false)) states_.begin_pass(arrays(phase), true, true);
}

void Optimizer::begin_masters(bool reads, bool writes) {
  expected_ = false;
  states_.begin_pass(arrays(bit_of(StateArray::master)), reads, writes);
}

void Optimizer::expect_step() {
  expected_ = false;  // data prefetched for a skipped step may be stale
  begin_phase(matrices_ ? Phase::direct : Phase::update);
  expected_ = true;
}

void Optimizer::step(const StepBlock* block, const QkClip* clip) {
  ++steps_;
  clip_ = clip;
  if (matrices_) {
    begin_phase(Phase::direct);
    for (const OwnedSlice& slice : layout_.owned())
      if (is_matrix(slice.parameter)) update(slice, block, Phase::direct);
    states_.end_pass();
    const TraceSpan span(trace_, "whole matrices", 0, -1);
    matrices_->run();
  }
  begin_phase(Phase::update);
  for_each_slice([&](const OwnedSlice& slice) { update(slice, block, Phase::update); });
  states_.end_pass();
  clip_ = nullptr;
}

void Optimizer::initialize(std::int64_t seed) {
  const auto stream = static_cast<std::uint64_t>(seed);
  // Moments start as zeros: memory and stores are zero-initialized.
  begin_masters(false, true);
  for (const OwnedSlice& whole : layout_.owned()) {
    const Parameter& parameter = stage_.definition().parameters[whole.parameter];
    for_each_piece(whole, [&](const OwnedSlice& slice) {
      const auto write = [&](std::byte* host) {
        if (dtype() == DType::f64) {
          fill(reinterpret_cast<double*>(host), parameter, slice, stream);
        } else {
          fill(reinterpret_cast<float*>(host), parameter, slice, stream);
        }
      };
      stage_.device().write(master(slice), slice.count() * size_of(dtype()), write);
    });
  }
  states_.end_pass();
  refresh_compute();
}

void Optimizer::refresh_compute() {
  begin_masters(true, false);
  with_compute_type(stage_.definition().compute, [&]<class T>(T) {
    using A = Acc<T>;
    for_each_slice([&](const OwnedSlice& whole) {
      if (!states_.kinds().masters) return;
      for_each_piece(whole, [&](const OwnedSlice& slice) {
        stage_.device().kernels<T>().cast_from_master(
            stage_.device().queue(),
            reinterpret_cast<T*>(parameters_.part(slice.bucket)) + slice.offset,
            reinterpret_cast<const A*>(master(slice)), slice.count());
      });
    });
  });
  states_.end_pass();
}

void Optimizer::for_each_master(
    const std::function<void(const OwnedSlice&, const std::byte*)>& use) {
  begin_masters(true, false);
  for (const OwnedSlice& slice : layout_.owned())
    for_each_piece(slice, [&](const OwnedSlice& piece) { use(piece, master(piece)); });
  states_.end_pass();
}

void Optimizer::set_trace(Trace* trace) {
  trace_ = trace;
  if (states_.store()) states_.store()->set_trace(trace);
}

}  // namespace trireme
