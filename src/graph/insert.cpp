// Copies values, then nodes.
#include "graph/insert.h"

#include "base/error.h"

namespace trireme {
namespace {

ValueId copy_of(Graph& graph, const Graph& segment, ValueId id, const std::string& prefix) {
  const Value& value = segment.value(id);
  if (value.role == Role::parameter && !segment.is_view(id)) {
    ParameterSpec spec = segment.parameters()[static_cast<std::size_t>(value.index)];
    spec.name = prefix + spec.name;
    return graph.parameter(std::move(spec));
  }
  const bool passes_on = value.role == Role::input || value.role == Role::output;
  return graph.new_value(value.dtype, value.shape, passes_on ? Role::internal : value.role,
                         value.index);
}

}  // namespace

ValueId insert_segment(Graph& graph, const Graph& segment, ValueId input,
                       const std::string& prefix) {
  TRIREME_CHECK(segment.output() != no_value && segment.backward.empty());
  std::vector<ValueId> copies;
  for (ValueId id = 0; id < segment.value_count(); ++id)
    copies.push_back(id == segment.input() ? input : copy_of(graph, segment, id, prefix));
  const auto copy = [&](ValueId id) {
    return id == no_value ? no_value : copies[static_cast<std::size_t>(id)];
  };
  // An assembled value may be created before its parts, or after them.
  for (ValueId id = 0; id < segment.value_count(); ++id) {
    if (!segment.is_view(id)) continue;
    const Value& owner = graph.value(copy(segment.value(id).storage));
    Value& view = graph.value(copy(id));
    view.role = owner.role;
    view.index = owner.index;
    view.storage = owner.storage;
    view.byte_offset = owner.byte_offset + segment.value(id).byte_offset;
  }
  for (Node node : segment.forward) {
    for (ValueId& id : node.inputs) id = copy(id);
    for (ValueId& id : node.outputs) id = copy(id);
    graph.forward.push_back(std::move(node));
  }
  return copy(segment.output());
}

}  // namespace trireme
