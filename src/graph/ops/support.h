// Small helpers shared by the op definitions.
#pragma once

#include "backend/device.h"
#include "graph/autodiff.h"
#include "graph/op.h"

namespace trireme::ops {

template <class T>
const Kernels<T>& kernels(const Launch& launch) {
  return launch.device.kernels<T>();
}

inline void require(bool condition, const Graph& graph, const Node& node, const char* what) {
  if (!condition) fail_shape(node, graph, what);
}

// Adds one output of the given type and shape to the node.
inline ValueId add_output(Graph& graph, Node& node, int i, DType dtype, Shape shape) {
  return node.outputs[i] = graph.new_value(dtype, shape);
}

// Emits the permutation by expert that made x once more, in a phase of the backward pass, so that
// permuted rows need not be saved; returns x if no permutation made it (experts.cpp).
ValueId permute_again(GradientBuilder& b, Phase phase, ValueId x);

inline Dropout dropout_at_run(const DropoutRule& rule, const Launch& launch,
                              const std::int64_t* sample_ids, std::int64_t seq) {
  Dropout dropout{rule, launch.step, sample_ids, seq};
  dropout.site += static_cast<std::uint32_t>(launch.layer) * 8;
  return dropout;
}

// Returns the process group with the given kind, which must exist and have the given size.
inline RankGroup& group_of(const Launch& launch, const GraphGroup& named) {
  RankGroup* group = launch.groups ? (*launch.groups)[named.kind] : nullptr;
  TRIREME_CHECK(group && group->size() == named.size);
  return *group;
}
// Returns the process group of a collective op.
inline RankGroup& group_of(const Launch& launch) {
  return group_of(launch, launch.node.as<CollectiveAttributes>().group);
}

// Row blocks of an op under exact numerics: one for all rows, or blocks of Graph::exact_block.
struct RowBlocks {
  std::int64_t rows, count;  // rows per block

  RowBlocks(const Graph& g, std::int64_t all)
      : rows(g.exact_block() > 0 ? g.exact_block() : all), count(all / rows) {
    TRIREME_CHECK(rows * count == all);
  }
};

// Scratch bytes placed before a kernel's own scratch when weight gradients are added block by
// block: the gradient of one block, with `elements` elements.
inline std::int64_t block_gradient_bytes(const Graph& g, std::int64_t elements) {
  constexpr std::int64_t alignment = 64;
  if (g.exact_block() == 0) return 0;
  return (elements * size_of(DType::f32) + alignment - 1) / alignment * alignment;
}

// Scratch bytes of the kernel bias_grad, or of one that makes a bias gradient in the same way, for
// the rows of dy (or of a block of them).
std::int64_t bias_grad_workspace(const Target& target, const Graph& g, const Value& dy);

// Adds a kernel's gradient of one block to an output, which is a fixed-point gradient.
inline void add_block(const Launch& l, int output, const void* made, bool overwrite) {
  l.device.state_kernels().add_fixed_point(l.queue, l.output<std::int64_t>(output),
                                           static_cast<const float*>(made),
                                           l.output_value(output).shape.count(), l.step,
                                           l.fixed_point.limit, overwrite, l.fixed_point.overflows);
}

// Adds the gradients of all blocks of all groups to an output, a fixed-point gradient. `made` has
// room for the f32 gradient of one group.
inline void add_groups(const Launch& l, int output, const GroupedProduct& product,
                       const GroupedShape& shape, const void* dy, const void* x,
                       const std::int32_t* offsets, void* made, void* workspace) {
  product.run_each(l.queue, made, dy, x, offsets, workspace, [&](std::int64_t group) {
    const std::int64_t count = shape.in * shape.out;
    l.device.state_kernels().add_fixed_point(
        l.queue, l.output<std::int64_t>(output) + group * count, static_cast<const float*>(made),
        count, l.step, l.fixed_point.limit, false, l.fixed_point.overflows);
  });
}

// Returns sample_ids if dropout needs them, otherwise no_value.
inline ValueId ids_if_dropping(const DropoutRule& dropout, ValueId sample_ids) {
  return dropout.probability > 0 ? sample_ids : no_value;
}

}  // namespace trireme::ops
