// Newton-Schulz iterations.
#include "optim/newton_schulz.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "backend/cpu/workspace.h"
#include "backend/gpu_workspace.h"
#include "base/error.h"
#include "base/exact_sum.h"
#include "graph/planner.h"

namespace trireme {
namespace {

// x becomes a x + (b xx^T + c (xx^T)^2) x.
struct Coefficients {
  double a, b, c;
};

std::span<const Coefficients> coefficients(const OptimizerConfig& config) {
  static constexpr Coefficients simple[] = {{3.4445, -4.7750, 2.0315}};
  static constexpr Coefficients quintic[] = {{4.0848, -6.8946, 2.9270},
                                             {3.9505, -6.3029, 2.6377},
                                             {3.7418, -5.5913, 2.3037},
                                             {2.8769, -3.1427, 1.2046},
                                             {2.8366, -3.0525, 1.2012}};
  switch (config.muon_coefficients) {
    case MuonCoefficients::simple:
      return simple;
    case MuonCoefficients::quintic:
      return quintic;
  }
  fail("internal error: no coefficients of {}", config.muon_coefficients);
}

}  // namespace

NewtonSchulz::NewtonSchulz(Device& device, DType compute, const OptimizerConfig& config)
    : device_(device), type_(compute == DType::f16 ? DType::f32 : compute), config_(config) {}

namespace {

double matrix_scale(MuonScale kind, double rows, double cols) {
  switch (kind) {
    case MuonScale::match_rms:
      return 0.2 * std::sqrt(std::max(rows, cols));
    case MuonScale::spectral:
      return std::sqrt(std::max(rows, cols));
    case MuonScale::original:
      return std::sqrt(std::max(1.0, rows / cols));
    case MuonScale::unit_rms:
      return std::sqrt(rows / cols);
  }
  fail("internal error: no scale of {}", kind);
}

}  // namespace

double NewtonSchulz::scale(const OptimizerConfig& config, std::int64_t out, std::int64_t in) {
  return matrix_scale(config.muon_scale, static_cast<double>(out), static_cast<double>(in)) *
         config.muon_scale_factor;
}

std::int64_t NewtonSchulz::workspace(std::int64_t shorter, std::int64_t longer) const {
  const auto bytes = [&](Product product, const LinearShape& shape) {
    const Target& target = device_.target();
    return target.device == DeviceKind::cpu
               ? cpu::linear_workspace(target, type_, product, shape)
               : gpu::linear_workspace(target.device, type_, product, shape);
  };
  return std::max({bytes(Product::forward, {shorter, longer, shorter}),
                   bytes(Product::forward, {shorter, shorter, shorter}),
                   bytes(Product::input_grad, {shorter, longer, shorter})});
}

std::int64_t NewtonSchulz::scratch_bytes(std::int64_t rows, std::int64_t cols) const {
  const auto [shorter, longer] = std::minmax(rows, cols);
  return align_up(sizeof(ExactSum)) + 2 * align_up(shorter * longer * size_of(type_)) +
         2 * align_up(shorter * shorter * size_of(type_)) + align_up(workspace(shorter, longer));
}

double NewtonSchulz::cost(std::int64_t rows, std::int64_t cols) const {
  const auto shorter = static_cast<double>(std::min(rows, cols));
  const auto longer = static_cast<double>(std::max(rows, cols));
  return shorter * shorter * (2 * longer + shorter);
}

const NewtonSchulz::Products& NewtonSchulz::products(std::int64_t shorter, std::int64_t longer) {
  const auto [known, added] = products_.try_emplace({shorter, longer});
  if (added) {
    known->second = {device_.linear(type_, Product::forward, {shorter, longer, shorter}),
                     device_.linear(type_, Product::forward, {shorter, shorter, shorter}),
                     device_.linear(type_, Product::input_grad, {shorter, longer, shorter})};
  }
  return known->second;
}

void NewtonSchulz::run(void* matrix, std::int64_t rows, std::int64_t cols, std::byte* scratch) {
  const bool transpose = rows > cols;
  const auto [shorter, longer] = std::minmax(rows, cols);
  const Products& product = products(shorter, longer);
  std::byte* at = scratch;
  const auto take = [&](std::int64_t bytes) { return std::exchange(at, at + align_up(bytes)); };
  auto* squares = reinterpret_cast<ExactSum*>(take(sizeof(ExactSum)));
  const std::int64_t elements = shorter * longer, gram_elements = shorter * shorter;
  void* const x = take(elements * size_of(type_));
  void* const y = take(elements * size_of(type_));
  void* const gram = take(gram_elements * size_of(type_));
  void* const square = take(gram_elements * size_of(type_));
  Queue& queue = device_.queue();
  queue.fill(squares, 0, sizeof(ExactSum));
  with_compute_type(type_, [&]<class T>(T) {
    using A = Acc<T>;
    const Kernels<T>& kernels = device_.kernels<T>();
    auto* const whole = static_cast<A*>(matrix);
    auto* const x_values = static_cast<T*>(x);
    kernels.add_squares(queue, squares, whole, elements, square_block);
    kernels.normalize_matrix(queue, x_values, whole, squares, rows, cols, transpose);
    const std::span<const Coefficients> sets = coefficients(config_);
    for (std::size_t i = 0; i < static_cast<std::size_t>(config_.muon_steps); ++i) {
      const auto [a, b, c] = sets[i % sets.size()];
      product.gram->run(queue, gram, x, x, nullptr, false, at);
      product.square->run(queue, square, gram, gram, nullptr, false, at);
      kernels.combine(queue, static_cast<T*>(gram), b, static_cast<T*>(square), c, gram_elements);
      product.times->run(queue, y, gram, x, nullptr, false, at);
      kernels.combine(queue, x_values, a, static_cast<T*>(y), 1, elements);
    }
    kernels.scale_matrix(queue, whole, x_values, scale(config_, rows, cols), rows, cols, transpose);
  });
}

}  // namespace trireme
