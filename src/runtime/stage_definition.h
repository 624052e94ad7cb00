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

// A parameter of the stage. Segments refer to it by index; a tied parameter has two users.
struct Parameter {
  std::string name;  // layout-independent, e.g. "layers.3.mlp.up.weight"
  ParameterSpec spec;
  std::int64_t offset = 0;  // in elements, in the parameter and gradient regions
};

// A graph, plus what the runtime needs to know to train it.
struct SegmentTemplate {
  std::unique_ptr<Graph> train;  // differentiated and rewritten; null if the stage does not train
  std::unique_ptr<Graph> eval;   // forward only, without dropout
  bool forward_in_backward = false;
};

struct SegmentInstance {
  int segment;                  // index of the template
  std::int32_t layer;           // -1 outside blocks
  std::vector<int> parameters;  // template's parameter index -> stage's parameter index
};

// Elements [begin, begin + elements) of the flat layout of a stage's parameters.
struct FlatRange {
  std::int64_t begin = 0;
  std::int64_t elements = 0;
  bool fixed_point = false;  // gradients are 64-bit integers (ParameterSpec::fixed_point)

  // Data type of gradients that are produced as `made`, or a wider one.
  DType gradients(DType made) const { return fixed_point ? DType::i64 : made; }
  std::int64_t gradient_bytes(DType made) const { return elements * size_of(gradients(made)); }
};

struct StageDefinition {
  DType compute = DType::f32;
  std::int64_t exact_block = 0;  // of the stage's graphs
  // Number of latest positions visible to each position (BatchInput::first_in_window); 0: all.
  std::int64_t attention_window = 0;
  bool window_chunks = false;  // instead: the size of chunks, of which a position sees its own
  std::vector<SegmentTemplate> templates;
  std::vector<SegmentInstance> segments;
  std::vector<Parameter> parameters;
  std::int64_t flat_elements = 0;  // total size, with gaps between parameters
  // By segment: the contents of its window, if parameters or gradients are in windows.
  std::vector<std::vector<FlatRange>> windows;

  DType accumulate() const { return compute == DType::f64 ? DType::f64 : DType::f32; }
  // Data type in which parameter gradients are produced.
  DType gradients() const { return exact_block > 0 ? DType::i64 : accumulate(); }
};

// Assigns consecutive offsets to the parameters; call when the list is complete.
void lay_out_parameters(StageDefinition& definition);

// Passes of a stage over one micro-batch. `backward` computes only the input gradients if the stage
// splits off the weight gradients.
enum class Pass : std::uint8_t { forward, backward, weight_grad, evaluate };

// Returns whether a pass visits the segments in model order.
constexpr bool runs_along(Pass pass) {
  return pass == Pass::forward || pass == Pass::evaluate;
}

}  // namespace trireme
