// Rows of an activation picked by number, and their gradient's way back. Plain
// loops: only a few rows are moved, so no kernel is needed.
#include <cstring>

#include "ops/definitions.h"
#include "ops/ops.h"
#include "ops/support.h"

namespace trireme::ops {
namespace {

// inputs: x, row numbers
void infer(Graph& g, Node& node) {
  const Value& x = g.value(node.inputs[0]);
  require(x.shape.rank() == 2, g, node, "rows are taken from [rows, columns]");
  add_output(g, node, 0, g.compute(), {g.value(node.inputs[1]).shape.count(), x.shape[1]});
}

void gradient(GradientBuilder& b, const Node& node) {
  const std::int64_t rows = b.graph().value(node.inputs[0]).shape[0];
  b.add_grad(node.inputs[0],
             b.emit(Phase::input_grad, OpKind::take_rows_grad, TakeRowsAttributes{rows},
                    {b.grad(node.outputs[0]), node.inputs[1]})
                 .outputs[0]);
}

// The number of row i, which comes from outside of the graph.
std::int64_t row_number(const Launch& l, std::int64_t i, std::int64_t rows) {
  const std::int64_t row = l.input<std::int32_t>(1)[i];
  TRIREME_CHECK(row >= 0 && row < rows);
  return row;
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const std::int64_t rows = l.input_value(0).shape[0];
    const std::int64_t taken = l.output_value(0).shape[0], columns = l.output_value(0).shape[1];
    for (std::int64_t i = 0; i < taken; ++i) {
      std::memcpy(l.output<T>(0) + i * columns, l.input<T>(0) + row_number(l, i, rows) * columns,
                  columns * sizeof(T));
    }
  });
}

// inputs: dy, row numbers
void infer_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(),
             {node.as<TakeRowsAttributes>().source_rows, g.value(node.inputs[0]).shape[1]});
}

// A row that was taken twice gets both gradients.
void launch_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = cpu::Acc<T>;
    const std::int64_t rows = l.output_value(0).shape[0], columns = l.output_value(0).shape[1];
    const std::int64_t taken = l.input_value(0).shape[0];
    std::memset(l.out[0], 0, l.output_value(0).bytes());
    for (std::int64_t i = 0; i < taken; ++i) {
      T* dx = l.output<T>(0) + row_number(l, i, rows) * columns;
      const T* dy = l.input<T>(0) + i * columns;
      for (std::int64_t c = 0; c < columns; ++c) {
        dx[c] = static_cast<T>(static_cast<A>(dx[c]) + static_cast<A>(dy[c]));
      }
    }
  });
}

}  // namespace

const OpDefinition take_rows_op{"take_rows", infer, gradient, nullptr, nullptr, launch, true};
const OpDefinition take_rows_grad_op{"take_rows_grad", infer_grad, nullptr,
                                     nullptr,          nullptr,    launch_grad};

ValueId take_rows(Graph& g, ValueId x, ValueId row_numbers) {
  return g.emit(OpKind::take_rows, TakeRowsAttributes{g.value(x).shape[0]}, {x, row_numbers})
      .outputs[0];
}

}  // namespace trireme::ops
