// Which tiles of each operand share a scale (docs/decisions/fp8.md), and the product in scratch.
#include "ops/fp8_linear.h"

#include <algorithm>

#include "backend/cpu/fp8.h"
#include "backend/cpu/workspace.h"
#include "base/error.h"

namespace trireme::ops {
namespace {

using cpu::Fp8Tiles;

constexpr std::int64_t block = 128;  // of the blockwise recipe (DeepSeek-AI 2024)

// A weight: one scale, or one for each square block.
Fp8Tiles tiles_of_weight(const Fp8Products& fp8, const Shape& shape) {
  const bool whole = fp8.recipe == Fp8Recipe::tensorwise;
  return {shape[0],
          shape[1],
          shape[0],
          whole ? shape[0] : block,
          whole ? shape[1] : block,
          fp8.forward,
          fp8.power_of_2_scales};
}

// Activations or their gradient: one scale for each sequence, or for each block along the
// dimension that the product sums over: columns, or in a weight's gradient rows, which then come in
// blocks of positions that follow each other and are summed at once.
Fp8Tiles tiles_of_rows(const Graph& g, const Shape& shape, Fp8Type type, bool over_rows) {
  const Fp8Products& fp8 = g.fp8();
  const std::int64_t rows = shape[0], cols = shape[1];
  if (fp8.recipe == Fp8Recipe::tensorwise) {
    const std::int64_t sequence = fp8.sequence_rows;
    return {rows, cols, sequence, sequence, cols, type, fp8.power_of_2_scales};
  }
  if (!over_rows) return {rows, cols, rows, 1, block, type, fp8.power_of_2_scales};
  const std::int64_t run =
      g.exact_block() > 0 ? std::min(g.exact_block(), fp8.run_rows) : fp8.run_rows;
  return {rows, cols, run, block, 1, type, fp8.power_of_2_scales};
}

// The operands in the order of the node, and where each thing lies in scratch.
struct Fp8Operands {
  Fp8Tiles a, b;
  std::int64_t result_cols = 0;
  std::int64_t largest = 0, rounded_a = 0, rounded_b = 0, made = 0, rest = 0;  // bytes
  bool stores = false;  // the result is not of the type of arithmetic

  Fp8Operands(const Graph& g, const Node& node, Product product) {
    const Shape& first = g.value(node.inputs[0]).shape;
    const Shape& second = g.value(node.inputs[1]).shape;
    const Fp8Products& fp8 = g.fp8();
    const bool sums = product == Product::weight_grad;
    a = tiles_of_rows(g, first, product == Product::forward ? fp8.forward : fp8.backward, sums);
    b = sums ? tiles_of_rows(g, second, fp8.forward, true) : tiles_of_weight(fp8, second);
    TRIREME_CHECK(a.rows % a.run == 0 && b.rows % b.run == 0);
    result_cols = product == Product::forward ? second[0] : second[1];
    stores = !sums && g.compute() != g.accumulate();
    const std::int64_t element = size_of(g.accumulate());
    const auto place = [&](std::int64_t& at, std::int64_t bytes) {
      constexpr std::int64_t alignment = 64;
      at = rest;
      rest += (bytes + alignment - 1) / alignment * alignment;
    };
    place(largest, (a.count() + b.count()) * size_of(DType::f32));
    place(rounded_a, a.rows * a.cols * element);
    place(rounded_b, b.rows * b.cols * element);
    place(made, stores ? a.rows * result_cols * element : 0);
  }
};

// One scale for what ranks have parts of.
void share_largest(const Launch& l, float* largest, std::int64_t count) {
  const Fp8Products& fp8 = l.graph.fp8();
  if (fp8.recipe != Fp8Recipe::tensorwise) return;
  for (const GraphGroup& named : {fp8.tensor, fp8.context})
    if (named.size > 1) group_of(l, named).maximum(l.queue, largest, count, DType::f32);
}

// A device that only records notes that each operand is read twice and written once: the kernels
// are the CPU's alone, and no entries of its table.
template <class T>
void find_largest(const Launch& l, int input, float* largest, const Fp8Tiles& tiles) {
  if (l.device.computes()) cpu::fp8_largest(largest, l.input<const T>(input), tiles);
}
template <class T>
void round_operand(const Launch& l, int input, Acc<T>* to, const float* largest,
                   const Fp8Tiles& tiles) {
  if (l.device.computes()) {
    cpu::fp8_round(to, l.input<const T>(input), largest, tiles);
  } else {
    l.queue.copy(to, l.in[input], tiles.rows * tiles.cols * size_of(DType::f32));
  }
}

template <class T>
void launch_as(const Launch& l, Product product) {
  using A = Acc<T>;
  const Graph& g = l.graph;
  const auto& linear = *static_cast<const LinearProduct*>(l.prepared);
  const Fp8Operands o(g, l.node, product);
  const bool sums = product == Product::weight_grad;
  const bool in_blocks = sums && g.exact_block() > 0;
  auto* const gradient = static_cast<std::byte*>(l.workspace);  // of one block
  std::byte* const scratch =
      gradient + (sums ? block_gradient_bytes(g, l.output_value(0).shape.count()) : 0);
  auto* const largest = reinterpret_cast<float*>(scratch + o.largest);
  auto* const a = reinterpret_cast<A*>(scratch + o.rounded_a);
  auto* const b = reinterpret_cast<A*>(scratch + o.rounded_b);
  find_largest<T>(l, 0, largest, o.a);
  find_largest<T>(l, 1, largest + o.a.count(), o.b);
  share_largest(l, largest, o.a.count() + o.b.count());
  round_operand<T>(l, 0, a, largest, o.a);
  round_operand<T>(l, 1, b, largest + o.a.count(), o.b);

  if (sums && !in_blocks)
    return linear.run(l.queue, l.out[0], a, b, nullptr, l.accumulate, scratch + o.rest);
  const T* bias = nullptr;
  if (product == Product::forward && l.node.as<LinearAttributes>().adds_bias)
    bias = l.input<const T>(2);
  A* const made = o.stores ? reinterpret_cast<A*>(scratch + o.made) : l.output<A>(0);
  const RowBlocks blocks(g, o.a.rows);
  for (std::int64_t i = 0; i < blocks.count; ++i) {
    const A* const rows = a + i * blocks.rows * o.a.cols;
    if (in_blocks) {
      linear.run(l.queue, gradient, rows, b + i * blocks.rows * o.b.cols, nullptr, false,
                 scratch + o.rest);
      add_block(l, 0, gradient, !l.accumulate && i == 0);
    } else {
      linear.run(l.queue, made + i * blocks.rows * o.result_cols, rows, b,
                 o.stores ? nullptr : bias, false, scratch + o.rest);
    }
  }
  if (o.stores && l.device.computes())
    cpu::store_sums(l.output<T>(0), made, bias, o.a.rows, o.result_cols);
}

}  // namespace

std::int64_t fp8_workspace(const Target& target, const Graph& g, const Node& node, Product product,
                           const LinearShape& shape) {
  if (target.device != DeviceKind::cpu) {
    fail_input(
        "fp8.recipe: products in fp8 have not been written for GPUs yet: use run.device = \"cpu\", "
        "or recipe = \"none\"");
  }
  return Fp8Operands(g, node, product).rest +
         cpu::linear_workspace(target, g.accumulate(), product, shape);
}

void launch_fp8(const Launch& l, Product product) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) { launch_as<T>(l, product); });
}

}  // namespace trireme::ops
