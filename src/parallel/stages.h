// Assignment of layers to pipeline stages.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/schedule/schedule.h"

namespace trireme {

// Layers [begin, end) of the model. The embedding precedes the layers of the first stage; the final
// norm and the head follow those of the last stage.
struct LayerRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return end - begin; }
  bool operator==(const LayerRange&) const = default;
};

// Returns the ranges by stage, in model order (StagePlacement maps stages to ranks). `stage_layers`
// is the number of layers per stage; empty: all equal. A split that is invalid, or uneven without
// `stage_layers`, is refused (exit code 2) with a suggestion of a valid one.
std::vector<LayerRange> assign_layers(std::int64_t num_layers, const StagePlacement& placement,
                                      const std::vector<std::int64_t>& stage_layers = {});

// Splits layers as equally as possible; middle stages take the remainder, because the first and the
// last stage also hold the embedding and the head.
std::vector<std::int64_t> balanced_stage_layers(std::int64_t num_layers, int stages);

}  // namespace trireme
