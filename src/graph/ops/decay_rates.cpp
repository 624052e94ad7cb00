// Decays and rates of writing of linear attention.
#include "backend/cpu/kernels.h"
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

// inputs: ba, a_log, dt_bias, (skip)
void infer(Graph& g, Node& node) {
  const auto& rule = node.as<DecayRule>();
  const Value& ba = g.value(node.inputs[0]);
  const std::int64_t rows = ba.shape[0];
  require(ba.shape.back() == rule.ba_cols(), g, node,
          "ba must be [rows, 2 * heads], or [rows, heads] with time steps");
  require(rule.time_steps == (node.inputs[3] != no_value), g, node, "time steps have skips");
  for (int i = 1; i <= (rule.time_steps ? 3 : 2); ++i)
    require(g.value(node.inputs[i]).shape.count() == rule.heads(), g, node,
            "each head has one amplitude, one bias and one skip");
  add_output(g, node, 0, g.accumulate(), {rows, rule.rate_cols()});
}

void gradient(GradientBuilder& b, const Node& node) {
  Graph& g = b.graph();
  const ValueId ba = node.inputs[0], a_log = node.inputs[1], dt_bias = node.inputs[2];
  const ValueId dskip = node.inputs[3] == no_value ? no_value : g.gradient_of(node.inputs[3]);
  b.add_grad(ba, b.emit(Phase::input_grad, OpKind::decay_rates_grad, node.attributes,
                        {b.grad(node.outputs[0]), ba, a_log, dt_bias, g.gradient_of(a_log),
                         g.gradient_of(dt_bias), dskip})
                     .outputs[0]);
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    kernels<T>(l).decay_rates(l.queue, {l.node.as<DecayRule>(), l.input_value(0).shape[0]},
                              l.output<Acc<T>>(0), l.input<T>(0), l.input<T>(1), l.input<T>(2),
                              l.input<T>(3));
  });
}

// inputs: drates, ba, a_log, dt_bias, gradients of the last two and of any skip; outputs: dba,
// these gradients
void infer_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(), g.value(node.inputs[1]).shape);
  for (const int i : {1, 2, 3}) {
    node.outputs[i] = node.inputs[3 + i];
    node.inputs[3 + i] = no_value;
  }
}

std::int64_t workspace_grad(const Target&, const Graph& g, const Node& node) {
  const std::int64_t heads = node.as<DecayRule>().heads();
  const std::int64_t rows = RowBlocks(g, g.value(node.inputs[1]).shape[0]).rows;
  return 3 * block_gradient_bytes(g, heads) +
         size_of(g.accumulate()) * cpu::norm_grad_workspace(rows, 3 * heads);
}

void launch_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    const DecayRule& rule = l.node.as<DecayRule>();
    const RowBlocks blocks(l.graph, l.input_value(1).shape[0]);
    const std::int64_t block = block_gradient_bytes(l.graph, rule.heads());
    const bool exact = l.graph.exact_block() > 0;
    auto* const memory = static_cast<std::byte*>(l.workspace);
    const int count = rule.time_steps ? 3 : 2;
    A* made[3] = {};
    for (int i = 0; i < count; ++i)
      made[i] = exact ? reinterpret_cast<A*>(memory + i * block) : l.output<A>(1 + i);
    for (std::int64_t b = 0; b < blocks.count; ++b) {
      const std::int64_t row = b * blocks.rows;
      kernels<T>(l).decay_rates_grad(l.queue, {rule, blocks.rows},
                                     {.dba = l.output<T>(0) + row * rule.ba_cols(),
                                      .da_log = made[0],
                                      .ddt_bias = made[1],
                                      .dskip = made[2],
                                      .accumulate = !exact && l.accumulate,
                                      .drates = l.input<A>(0) + row * rule.rate_cols(),
                                      .ba = l.input<T>(1) + row * rule.ba_cols(),
                                      .a_log = l.input<T>(2),
                                      .dt_bias = l.input<T>(3),
                                      .workspace = reinterpret_cast<A*>(memory + 3 * block)});
      for (int i = 0; exact && i < count; ++i)
        add_block(l, 1 + i, made[i], !l.accumulate && b == 0);
    }
  });
}

}  // namespace

const OpDefinition decay_rates_op{
    .name = "decay_rates", .infer = infer, .gradient = gradient, .launch = launch, .cheap = true};
const OpDefinition decay_rates_grad_op{.name = "decay_rates_grad",
                                       .infer = infer_grad,
                                       .workspace = workspace_grad,
                                       .launch = launch_grad};

ValueId decay_rates(Graph& g, ValueId ba, ValueId a_log, ValueId dt_bias, const DecayRule& rule,
                    ValueId skip) {
  return g.emit(OpKind::decay_rates, rule, {ba, a_log, dt_bias, skip}).outputs[0];
}

}  // namespace trireme::ops
