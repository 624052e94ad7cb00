// Bytes that PyTorch's kernels read and write, per element of a 16-bit tensor.
#include "plan/timing/eager.h"

#include <algorithm>
#include <string_view>

namespace trireme {
namespace {

using Kind = RecordedWork::Kind;

bool is_op(const RecordedWork& work, std::string_view op) {
  return work.op == op;
}

// RMSNorm in Python: to fp32 (2 + 4), the square (8), its mean (4), the product with the inverse
// root (8), back (6), times the weight (4). Backward: the weight and its gradient (12), the
// conversions (6 + 6), the product's two gradients (8 + 16), the square's (24), the sum of both
// (12).
constexpr double norm_bytes = 36, norm_grad_bytes = 84;
// Addition of two tensors, which ours fuses into the norm or its gradient.
constexpr double sum_bytes = 6;
// Complex rotation in fp32: conversion (6), product (8), back (6); its gradient costs the same.
constexpr double rotation_bytes = 20;
// SiLU (4) and its product with `up` (6), 6 in ours; backward 12 and 6, 10 in ours.
constexpr double activation = 10.0 / 6, activation_grad = 18.0 / 10;

enum class Which { forward, input_grad, weight_grad };

Which which(const RecordedWork& product) {
  const std::string_view name = product.name;
  if (name.find("input gradient") != std::string_view::npos) return Which::input_grad;
  return name.find("weight gradient") != std::string_view::npos ? Which::weight_grad
                                                                : Which::forward;
}

// The dimension of a product that is its weight's output dimension.
std::int64_t& outputs_of(RecordedProductShape& shape, Which which) {
  if (which == Which::forward) return shape.columns;
  return which == Which::input_grad ? shape.inner : shape.rows;
}

std::int64_t inputs_of(const RecordedProductShape& shape, Which which) {
  return which == Which::forward ? shape.inner : shape.columns;
}

RecordedWork with_bytes(RecordedWork work, double bytes) {
  work.bytes = bytes;
  return work;
}

}  // namespace

// The four products of a layer without experts: QKV, attention output, and the two of its
// MLP.
std::optional<ForeignKernels::Layer> ForeignKernels::layer_of(const RecordedPiece& forward) {
  std::vector<RecordedProductShape> products;
  double norm = 0;
  for (const RecordedWork& work : forward.work) {
    if (work.kind == Kind::product) products.push_back(work.product);
    if (norm == 0 && is_op(work, "norm")) norm = work.bytes;
  }
  if (products.size() != 4 || norm == 0) return {};
  const RecordedProductShape &joined = products[0], &after = products[1], &up = products[2],
                             &down = products[3];
  Layer layer{joined.inner,
              after.inner,
              (joined.columns - after.inner) / 2,
              down.inner,
              up.columns == 2 * down.inner,
              norm / 2};
  if (after.columns != layer.hidden || up.inner != layer.hidden || layer.keys <= 0) return {};
  return layer;
}

ForeignKernels::ForeignKernels(const CostModel& costs, const Record& record) : costs_(costs) {
  for (const auto& [key, piece] : record.pieces())
    if (!layer_ && key.pass == 0) layer_ = layer_of(piece);
}

std::vector<std::int64_t> ForeignKernels::parts(const RecordedWork& product) const {
  if (!layer_ || !costs_.stack().separate_products) return {};
  RecordedProductShape shape = product.product;
  const Which kind = which(product);
  const std::int64_t outputs = outputs_of(shape, kind);
  if (shape.groups != 1 || inputs_of(shape, kind) != layer_->hidden) return {};
  if (outputs == layer_->queries + 2 * layer_->keys)
    return {layer_->queries, layer_->keys, layer_->keys};
  if (layer_->has_gate && outputs == 2 * layer_->inner) return {layer_->inner, layer_->inner};
  return {};
}

double ForeignKernels::bytes(const RecordedWork& kernel) const {
  // In units of one byte per element of the layer's activations.
  const double element = layer_->activations / 2;
  const bool adds = kernel.bytes > 7 * element;
  const bool fused = costs_.stack().fused_norm;
  if (is_op(kernel, "norm")) return element * ((fused ? 4 : norm_bytes) + (adds ? sum_bytes : 0));
  if (is_op(kernel, "norm_grad"))
    return element * ((fused ? 6 : norm_grad_bytes) + (adds ? sum_bytes : 0));
  if (is_op(kernel, "activation")) return kernel.bytes * activation;
  if (is_op(kernel, "activation_grad")) return kernel.bytes * activation_grad;
  if (is_op(kernel, "rope")) {
    // Our cost includes reading and writing of queries, keys and values. With fewer KV heads, keys
    // and values are then repeated for all queries.
    const auto queries = static_cast<double>(layer_->queries),
               keys = static_cast<double>(layer_->keys);
    const double repeated = keys < queries ? 4 * (queries + keys) : 0;
    return kernel.bytes * (rotation_bytes * (queries + keys) + repeated) /
           (4 * (queries + 2 * keys));
  }
  return kernel.bytes;
}

double ForeignKernels::seconds(const RecordedWork& work) const {
  if (work.kind == Kind::kernel && layer_ && costs_.stack().eager)
    return costs_.work(with_bytes(work, bytes(work)));
  const std::vector<std::int64_t> widths =
      work.kind == Kind::product ? parts(work) : std::vector<std::int64_t>{};
  if (widths.empty()) return costs_.work(work);
  double seconds = 0;
  RecordedWork part = with_bytes(work, 0);
  const Which kind = which(work);
  for (const std::int64_t width : widths) {
    outputs_of(part.product, kind) = width;
    seconds += costs_.work(part);
  }
  // Gradients of the same input are added: one by one, or in the compiled kernel that reads them,
  // which then reads more.
  if (kind == Which::input_grad) {
    const double sums =
        (costs_.stack().eager ? sum_bytes : 2) * static_cast<double>(widths.size() - 1);
    seconds += sums * static_cast<double>(work.product.rows * work.product.columns) /
               costs_.machine().memory_rate;
  }
  return seconds;
}

ForeignKernels::Again ForeignKernels::again(const RecordedPiece& forward) const {
  Again again;
  if (!layer_of(forward)) return again;
  int number = 0;
  for (const RecordedWork& work : forward.work) {
    if (is_op(work, "rope")) again.kernels += seconds(work);
    if (work.kind != Kind::product) continue;
    // Widths of queries, keys, values, the projection after attention, gate, up and down.
    const std::vector<std::int64_t> widths = parts(work);
    if (widths.empty()) {
      if (++number % 2 == 0) again.products += costs_.work(work);
      continue;
    }
    RecordedWork part = with_bytes(work, 0);
    for (const std::int64_t width : widths) {
      part.product.columns = width;
      if (++number % 2 == 0) again.products += costs_.work(part);
    }
  }
  return again;
}

}  // namespace trireme
