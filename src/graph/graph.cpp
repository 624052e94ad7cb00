// Construction of a graph: declarations and nodes.
#include "graph/graph.h"

#include <utility>

#include "graph/op.h"

namespace trireme {

ValueId Graph::new_value(DType dtype, Shape shape, Role role, std::int32_t index) {
  const ValueId id = value_count();
  values_.push_back({dtype, role, index, shape, id, 0});
  return id;
}

ValueId Graph::new_view(ValueId owner, Shape shape, std::int64_t byte_offset) {
  const Value base = values_[owner];
  const ValueId id = value_count();
  values_.push_back(
      {base.dtype, base.role, base.index, shape, base.storage, base.byte_offset + byte_offset});
  TRIREME_CHECK(byte_offset + values_[id].bytes() <= base.bytes());
  return id;
}

void Graph::place_in(ValueId value, ValueId owner, std::int64_t byte_offset) {
  const Value& base = values_[owner];
  Value& part = values_[value];
  TRIREME_CHECK(part.storage == value && part.role == Role::internal);
  TRIREME_CHECK(byte_offset + part.bytes() <= base.bytes());
  part.storage = base.storage;
  part.role = base.role;
  part.index = base.index;
  part.byte_offset = base.byte_offset + byte_offset;
}

ValueId Graph::parameter(ParameterSpec spec) {
  const auto index = static_cast<std::int32_t>(parameters_.size());
  if (spec.saved_shape.rank() == 0) spec.saved_shape = spec.shape;
  const ValueId id = new_value(compute_, spec.shape, Role::parameter, index);
  parameters_.push_back(std::move(spec));
  gradients_.push_back(no_value);
  return id;
}

ValueId Graph::batch(BatchInput which, DType dtype, Shape shape) {
  return new_value(dtype, shape, Role::batch, static_cast<std::int32_t>(which));
}

ValueId Graph::constant(ConstantInput which, DType dtype, Shape shape) {
  return new_value(dtype, shape, Role::constant, static_cast<std::int32_t>(which));
}

ValueId Graph::cache(CacheBuffer which, Shape shape) {
  return new_value(compute_, shape, Role::cache, static_cast<std::int32_t>(which));
}

ValueId Graph::segment_input(Shape shape) {
  TRIREME_CHECK(input_ == no_value);
  return input_ = new_value(compute_, shape, Role::input);
}

void Graph::set_output(ValueId value) {
  TRIREME_CHECK(output_ == no_value && values_[value].role == Role::internal && !is_view(value));
  values_[value].role = Role::output;
  output_ = value;
}

void Graph::set_result(ValueId value, ResultOutput which) {
  TRIREME_CHECK(values_[value].role == Role::internal && !is_view(value));
  values_[value].role = Role::result;
  values_[value].index = static_cast<std::int32_t>(which);
}

ValueId Graph::gradient_of(ValueId parameter) {
  const Value param = values_[parameter];
  TRIREME_CHECK(param.role == Role::parameter);
  ValueId& id = gradients_[param.index];
  const DType dtype = parameters_[param.index].fixed_point ? DType::i64 : gradient_type();
  if (id == no_value)
    id = new_value(dtype, parameters_[param.index].shape, Role::gradient, param.index);
  return id;
}

ValueId Graph::make_output_grad() {
  return output_grad_ = new_value(compute_, values_[output_].shape, Role::output_grad);
}

void Graph::set_input_grad(ValueId value) {
  TRIREME_CHECK(values_[value].role == Role::internal && !is_view(value));
  // Views created while it was internal are updated with it.
  for (Value& other : values_) {
    if (other.storage == value) other.role = Role::input_grad;
  }
  input_grad_ = value;
}

const Node& Graph::append(std::vector<Node>& list, OpKind op, Phase phase, Attributes&& attributes,
                          std::initializer_list<ValueId> inputs) {
  Node node{op, phase, std::move(attributes), {}, {}};
  node.inputs.fill(no_value);
  node.outputs.fill(no_value);
  TRIREME_CHECK(inputs.size() <= Node::max_inputs);
  std::copy(inputs.begin(), inputs.end(), node.inputs.begin());

  definition(op).infer(*this, node);
  list.push_back(std::move(node));
  return list.back();
}

const Node& Graph::emit(OpKind op, Attributes attributes, std::initializer_list<ValueId> inputs) {
  return append(forward, op, Phase::forward, std::move(attributes), inputs);
}

const Node& Graph::emit_grad(OpKind op, Phase phase, Attributes attributes,
                             std::initializer_list<ValueId> inputs) {
  return append(backward, op, phase, std::move(attributes), inputs);
}

Cost cost_of(const Graph& graph, const Node& node) {
  const OpDefinition& def = definition(node.op);
  Cost cost;
  if (!def.launch) return cost;
  if (def.flops) cost.flops = def.flops(graph, node);
  for (const ValueId id : node.inputs) {
    if (id != no_value) cost.bytes += static_cast<double>(graph.value(id).bytes());
  }
  for (const ValueId id : node.outputs) {
    if (id != no_value) cost.bytes += static_cast<double>(graph.value(id).bytes());
  }
  return cost;
}

void fail_shape(const Node& node, const Graph& graph, const char* what) {
  std::string shapes;
  for (const ValueId id : node.inputs) {
    if (id != no_value) shapes += (shapes.empty() ? "" : ", ") + graph.value(id).shape.text();
  }
  throw Error(ExitCode::failed,
              fmt::format("{}: {}; operands {}", definition(node.op).name, what, shapes));
}

}  // namespace trireme
