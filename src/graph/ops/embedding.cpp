// Embedding of tokens, learned positions and token types.
#include "backend/cpu/kernels.h"
#include "backend/gpu_workspace.h"
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

// inputs: ids, table, positions, position table, types, type table
void infer(Graph& g, Node& node) {
  const Value& table = g.value(node.inputs[1]);
  require(table.shape.rank() == 2, g, node, "the table must be [vocabulary, hidden]");
  add_output(g, node, 0, g.compute(), {g.value(node.inputs[0]).shape.count(), table.shape.back()});
}

void gradient(GradientBuilder& b, const Node& node) {
  const ValueId dy = b.grad(node.outputs[0]);
  const auto attributes = node.as<EmbeddingAttributes>();
  b.emit(Phase::weight_grad, OpKind::embedding_grad, attributes,
         {node.inputs[0], dy, b.graph().gradient_of(node.inputs[1])});
  for (const int index : {2, 4}) {  // positions and types: their tables are replicated
    if (node.inputs[index + 1] == no_value) continue;
    b.emit(Phase::weight_grad, OpKind::embedding_grad, EmbeddingAttributes{attributes.seq, 0},
           {node.inputs[index], dy, b.graph().gradient_of(node.inputs[index + 1])});
  }
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Value& table = l.input_value(1);
    const Value& y = l.output_value(0);
    const auto& attributes = l.node.as<EmbeddingAttributes>();
    kernels<T>(l).embedding(l.queue, {.y = l.output<T>(0),
                                      .ids = l.input<std::int32_t>(0),
                                      .table = l.input<T>(1),
                                      .position_table = l.input<T>(3),
                                      .positions = l.input<std::int32_t>(2),
                                      .type_table = l.input<T>(5),
                                      .types = l.input<std::int32_t>(4),
                                      .rows = y.shape[0],
                                      .cols = y.shape[1],
                                      .seq = attributes.seq,
                                      .first_id = attributes.first_id,
                                      .local_ids = table.shape[0]});
  });
}

// inputs: ids, dy, gradient of the table; the output is that gradient
void infer_grad(Graph& g, Node& node) {
  const Value& table = g.value(node.inputs[2]);
  require(table.shape.back() == g.value(node.inputs[1]).shape.back(), g, node,
          "gradient and table differ in width");
  node.outputs[0] = node.inputs[2];
  node.inputs[2] = no_value;
}

std::int64_t workspace_grad(const Target& target, const Graph& g, const Node& node) {
  const std::int64_t rows = RowBlocks(g, g.value(node.inputs[1]).shape[0]).rows;
  const std::int64_t local_ids = g.value(node.outputs[0]).shape[0];
  const std::int64_t own = target.device != DeviceKind::cpu
                               ? gpu::embedding_grad_workspace(rows, local_ids)
                               : static_cast<std::int64_t>(sizeof(std::int32_t)) *
                                     cpu::embedding_grad_workspace(rows, local_ids);
  return block_gradient_bytes(g, g.value(node.outputs[0]).shape.count()) + own;
}

void launch_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const std::int64_t cols = l.input_value(1).shape[1];
    const Value& table = l.output_value(0);
    const RowBlocks blocks(l.graph, l.input_value(1).shape[0]);
    const bool adds_blocks = l.graph.exact_block() > 0;
    auto* scratch = static_cast<std::byte*>(l.workspace);
    auto* made = adds_blocks ? reinterpret_cast<Acc<T>*>(scratch) : l.output<Acc<T>>(0);
    auto* rest = reinterpret_cast<std::int32_t*>(
        scratch + block_gradient_bytes(l.graph, table.shape.count()));
    for (std::int64_t b = 0; b < blocks.count; ++b) {
      kernels<T>(l).embedding_grad(l.queue, made, !adds_blocks && l.accumulate,
                                   l.input<std::int32_t>(0) + b * blocks.rows,
                                   l.input<T>(1) + b * blocks.rows * cols, blocks.rows, cols,
                                   l.node.as<EmbeddingAttributes>().first_id, table.shape[0], rest);
      if (adds_blocks) add_block(l, 0, made, !l.accumulate && b == 0);
    }
  });
}

}  // namespace

const OpDefinition embedding_op{
    .name = "embedding", .infer = infer, .gradient = gradient, .launch = launch, .cheap = true};
const OpDefinition embedding_grad_op{.name = "embedding_grad",
                                     .infer = infer_grad,
                                     .workspace = workspace_grad,
                                     .launch = launch_grad};

ValueId embedding(Graph& g, ValueId ids, ValueId table, ValueId positions, ValueId position_table,
                  std::int64_t first_id, ValueId types, ValueId type_table) {
  return g
      .emit(OpKind::embedding, EmbeddingAttributes{1, first_id},
            {ids, table, position_table == no_value ? no_value : positions, position_table,
             type_table == no_value ? no_value : types, type_table})
      .outputs[0];
}

}  // namespace trireme::ops
