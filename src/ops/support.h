// Small helpers that the op definitions share.
#pragma once

#include "backend/cpu/kernels.h"
#include "graph/autodiff.h"
#include "graph/op.h"

namespace trireme::ops {

// Calls body with a value of the C++ type of a compute dtype: body(float{}), body(bf16{}) ...
template <class Body>
auto with_compute_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f64:
      return body(double{});
    case DType::bf16:
      return body(bf16{});
    case DType::f16:
      return body(f16{});
    default:
      TRIREME_CHECK(dtype == DType::f32);
      return body(float{});
  }
}

inline void require(bool condition, const Graph& graph, const Node& node, const char* what) {
  if (!condition) fail_shape(node, graph, what);
}

// Adds one output of the given type and shape to the node.
inline ValueId add_output(Graph& graph, Node& node, int i, DType dtype, Shape shape) {
  return node.outputs[i] = graph.new_value(dtype, shape);
}

inline cpu::Dropout dropout_at_run(const DropoutAttributes& attributes, const Launch& launch,
                                   const std::int64_t* sample_ids, std::int64_t seq) {
  cpu::Dropout dropout;
  dropout.probability = attributes.probability;
  dropout.block = launch.step;
  dropout.site = static_cast<std::uint32_t>(launch.layer) * 8 + attributes.site;
  dropout.sample_ids = sample_ids;
  dropout.seq_length = seq;
  dropout.first_row = attributes.first_row;
  return dropout;
}

// The ranks that a collective op talks to.
inline RankGroup& group_of(const Launch& launch) {
  TRIREME_CHECK(launch.group &&
                launch.group->size() == launch.node.as<CollectiveAttributes>().size);
  return *launch.group;
}

// Whether dropout needs the sample numbers; the builder passes no_value where it does not.
inline ValueId ids_if_dropping(const DropoutAttributes& dropout, ValueId sample_ids) {
  return dropout.probability > 0 ? sample_ids : no_value;
}

}  // namespace trireme::ops
