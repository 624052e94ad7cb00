// Scale tiles of each operand (docs/decisions/fp8.md), and the product of operands in scratch: of
// bytes if a device library supports them, otherwise of their values.
#include "graph/ops/fp8_linear.h"

#include <algorithm>

#include "backend/cpu/workspace.h"
#include "backend/gpu_workspace.h"
#include "graph/ops/fp8_bytes.h"

namespace trireme::ops {
namespace {

// Tiles of activations or their gradient: one scale per sequence, or per block along the summed
// dimension. That is columns or, for a weight gradient, rows, which then must be in blocks of
// consecutive positions summed together.
Fp8Tiles tiles_of_rows(const Graph& g, const Shape& shape, Fp8Type type, bool over_rows) {
  const Fp8Products& fp8 = g.fp8();
  const std::int64_t rows = shape[0], cols = shape[1];
  if (fp8.recipe == Fp8Recipe::tensorwise) {
    const std::int64_t sequence = fp8.sequence_rows;
    return {rows, cols, sequence, sequence, cols, type, fp8.power_of_2_scales};
  }
  if (!over_rows) return {rows, cols, rows, 1, fp8_block, type, fp8.power_of_2_scales};
  const std::int64_t run =
      g.exact_block() > 0 ? std::min(g.exact_block(), fp8.run_rows) : fp8.run_rows;
  return {rows, cols, run, fp8_block, 1, type, fp8.power_of_2_scales};
}

// Takes the maximum over ranks that hold parts of the same tile, so that they share a scale.
void share_largest(const Launch& l, float* largest, std::int64_t count) {
  const Fp8Products& fp8 = l.graph.fp8();
  if (fp8.recipe != Fp8Recipe::tensorwise) return;
  for (const GraphGroup& named : {fp8.tensor, fp8.context})
    if (named.size > 1) group_of(l, named).maximum(l.queue, largest, count, DType::f32);
}

// Rounded operands whose scales are found, but which are not rounded yet.
template <class T>
Fp8Rounded<T> find_scales(const Launch& l, const Fp8Operands& o, std::byte* scratch) {
  const Fp8Rounded<T> rounded(l.device, l.queue, o, scratch);
  rounded.find_largest(l.input<T>(0), l.input<T>(1));
  share_largest(l, rounded.largest(), o.a.count() + o.b.count());
  return rounded;
}

template <class T>
void launch_as(const Launch& l, Product product) {
  const Graph& g = l.graph;
  const auto& prepared = *static_cast<const Fp8Prepared*>(l.prepared);
  const Fp8Operands o = fp8_operands(l.device.target().device, g, l.node, product);
  const bool sums = product == Product::weight_grad;
  const bool in_blocks = sums && g.exact_block() > 0;
  auto* const gradient = static_cast<std::byte*>(l.workspace);  // for one block
  std::byte* const scratch =
      gradient + (sums ? block_gradient_bytes(g, l.output_value(0).shape.count()) : 0);
  const auto rounded = find_scales<T>(l, o, scratch);
  const T* bias = nullptr;
  if (product == Product::forward && l.node.as<LinearAttributes>().adds_bias)
    bias = l.input<const T>(2);
  if (prepared.library && prepared.library->computes(bias != nullptr))
    return launch_fp8_bytes(l, product, o, *prepared.library, bias, gradient, scratch);
  const LinearProduct& linear = *prepared.own;
  rounded.round(l.input<T>(0), l.input<T>(1));
  const std::byte *const a = rounded.a(), *const b = rounded.b();

  if (sums && !in_blocks)
    return linear.run(l.queue, l.out[0], a, b, nullptr, l.accumulate, scratch + o.rest);
  std::byte* const made = o.stores ? rounded.made() : l.output<std::byte>(0);
  const std::int64_t element = size_of(o.type);
  const RowBlocks blocks(g, o.a.rows);
  for (std::int64_t i = 0; i < blocks.count; ++i) {
    const std::int64_t first = i * blocks.rows * element;
    const std::byte* const rows = a + first * o.a.cols;
    if (in_blocks) {
      linear.run(l.queue, gradient, rows, b + first * o.b.cols, nullptr, false, scratch + o.rest);
      add_block(l, 0, gradient, !l.accumulate && i == 0);
    } else {
      linear.run(l.queue, made + first * o.result_cols, rows, b, o.stores ? nullptr : bias, false,
                 scratch + o.rest);
    }
  }
  if (o.stores) rounded.store(l.output<T>(0), bias);
}

}  // namespace

bool rounds_to_fp8(const Graph& g, const Node& node) {
  return is_fp8(g) && node.as<LinearAttributes>().may_round;
}

Fp8Operands fp8_operands(DeviceKind device, const Graph& g, const Node& node, Product product) {
  const Shape& first = g.value(node.inputs[0]).shape;
  const Shape& second = g.value(node.inputs[1]).shape;
  const Fp8Products& fp8 = g.fp8();
  const bool sums = product == Product::weight_grad;
  const Fp8Tiles a =
      tiles_of_rows(g, first, product == Product::forward ? fp8.forward : fp8.backward, sums);
  const Fp8Tiles b =
      sums ? tiles_of_rows(g, second, fp8.forward, true) : tiles_of_weights(fp8, second, 1);
  TRIREME_CHECK(a.rows % a.run == 0 && b.rows % b.run == 0);
  const LeafCut& leaves = node.as<LinearAttributes>().leaves;
  const std::int64_t cols = product == Product::forward ? leaves.columns(second[0]) : second[1];
  return {device, g, a, b, cols, !sums};
}

template <class T>
Fp8Rounded<T> round_operands(const Launch& l, const Fp8Operands& operands, std::byte* scratch) {
  const auto rounded = find_scales<T>(l, operands, scratch);
  rounded.round(l.input<T>(0), l.input<T>(1));
  return rounded;
}

#define TRIREME_ROUND(T) \
  template Fp8Rounded<T> round_operands(const Launch&, const Fp8Operands&, std::byte*)
TRIREME_ROUND(float);
TRIREME_ROUND(bf16);
TRIREME_ROUND(f16);
TRIREME_ROUND(double);
#undef TRIREME_ROUND

std::int64_t fp8_workspace(const Target& target, const Graph& g, const Node& node, Product product,
                           const LinearShape& shape) {
  const Fp8Operands o = fp8_operands(target.device, g, node, product);
  if (target.device == DeviceKind::cpu)
    return o.rest + cpu::linear_workspace(target, o.type, product, shape);
  return std::max(o.rest, fp8_bytes_scratch(g, product, o)) +
         gpu::linear_workspace(target.device, o.type, product, shape);
}

std::shared_ptr<const void> prepare_fp8(Device& device, const Graph& g, const Node& node,
                                        Product product, const LinearShape& shape) {
  return prepare_fp8(device, g, product, shape,
                     fp8_operands(device.target().device, g, node, product));
}

void launch_fp8(const Launch& l, Product product) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) { launch_as<T>(l, product); });
}

}  // namespace trireme::ops
