// The computation of a pipeline stage: segments in order, each an instance of a template graph, and
// the parameters that they share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/planner.h"
#include "graph/recompute.h"

namespace trireme {

// A parameter of the whole stage. Segments refer to it by its index; a tied one has two users.
struct Parameter {
  std::string name;  // layout-independent, e.g. "layers.3.mlp.up.weight"
  ParameterSpec spec;
  std::int64_t offset = 0;  // in elements, in the parameter and gradient regions
};

// A graph, with the facts that the runtime needs to run it in training.
struct SegmentTemplate {
  std::unique_ptr<Graph> train;  // differentiated and rewritten; null if the stage does not train
  std::unique_ptr<Graph> eval;   // forward only, without dropout
  bool forward_in_backward = false;
};

struct SegmentInstance {
  int segment;                  // index of the template
  std::int32_t layer;           // -1 outside of blocks
  std::vector<int> parameters;  // by the template's parameter index: index of the stage's parameter
};

// Elements [begin, begin + elements) of the flat layout of a stage's parameters.
struct FlatRange {
  std::int64_t begin = 0;
  std::int64_t elements = 0;
  bool fixed_point = false;  // gradients arise as 64-bit numbers (ParameterSpec::fixed_point)

  // Data type of gradients that are produced as `made`, or a wider one.
  DType gradients(DType made) const { return fixed_point ? DType::i64 : made; }
  std::int64_t gradient_bytes(DType made) const { return elements * size_of(gradients(made)); }
};

struct StageDefinition {
  DType compute = DType::f32;
  std::int64_t exact_block = 0;  // of its graphs
  // Newest positions that each attends to (BatchInput::first_in_window); 0: all.
  std::int64_t attention_window = 0;
  std::vector<SegmentTemplate> templates;
  std::vector<SegmentInstance> segments;
  std::vector<Parameter> parameters;
  std::int64_t flat_elements = 0;  // of all parameters, with the gaps between them
  // By segment: the contents of its window, if parameters or gradients are in windows.
  std::vector<std::vector<FlatRange>> windows;

  DType accumulate() const { return compute == DType::f64 ? DType::f64 : DType::f32; }
  // In which gradients of parameters arise.
  DType gradients() const { return exact_block > 0 ? DType::i64 : accumulate(); }
};

// Gives each parameter its offset, one after the other; call when all are listed.
void lay_out_parameters(StageDefinition& definition);

// The passes of a stage over one micro-batch. `backward` computes the input gradients only where
// the stage splits off the weight gradients.
enum class Pass : std::uint8_t { forward, backward, weight_grad, evaluate };

// Whether a pass takes the segments in the model's order.
constexpr bool runs_along(Pass pass) {
  return pass == Pass::forward || pass == Pass::evaluate;
}

}  // namespace trireme
