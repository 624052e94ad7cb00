// Rotary position embedding, in place on queries and keys; its gradient is the rotation back.
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

// inputs: qkv, (cos, sin), positions, (query factors); the output shares the memory of qkv
void infer(Graph& g, Node& node) {
  const auto& a = node.as<RopeAttributes>();
  const Value qkv = g.value(node.inputs[0]);
  require(qkv.shape.back() == a.groups * (a.queries_per_group + 2) * a.head_dim, g, node,
          "qkv must be [rows, groups * (queries per group + 2) * head_dim]");
  require(node.inputs[1] == no_value ? a.rotary_dim == 0
                                     : g.value(node.inputs[1]).shape.back() == a.rotary_dim / 2,
          g, node, "the tables must be [positions, rotary_dim / 2]");
  node.outputs[0] = g.new_view(node.inputs[0], qkv.shape, 0);
}

void gradient(GradientBuilder& b, const Node& node) {
  auto back = node.as<RopeAttributes>();
  back.direction = -back.direction;
  b.set_grad(node.inputs[0], b.emit(Phase::input_grad, OpKind::rope, back,
                                    {b.grad(node.outputs[0]), node.inputs[1], node.inputs[2],
                                     node.inputs[3], node.inputs[4]})
                                 .outputs[0]);
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const auto& a = l.node.as<RopeAttributes>();
    AttentionShape shape{};
    shape.batch = l.input_value(0).shape[0] / a.seq;
    shape.seq = a.seq;
    shape.groups = a.groups;
    shape.queries_per_group = a.queries_per_group;
    shape.head_dim = a.head_dim;
    using A = Acc<T>;
    kernels<T>(l).rope(l.queue, l.output<T>(0), shape, a.rotary_dim, l.input<A>(1), l.input<A>(2),
                       l.input<A>(4), l.input<std::int32_t>(3), a.direction);
  });
}

}  // namespace

const OpDefinition rope_op{.name = "rope", .infer = infer, .gradient = gradient, .launch = launch};

ValueId rope(Graph& g, ValueId qkv, ValueId cos, ValueId sin, ValueId positions,
             const RopeAttributes& attributes, ValueId query_factor) {
  return g.emit(OpKind::rope, attributes, {qkv, cos, sin, positions, query_factor}).outputs[0];
}

}  // namespace trireme::ops
