// Which layers each pipeline stage holds.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/schedule.h"

namespace trireme {

// Layers [begin, end) of the model. The embedding lies before the layers of the first stage, the
// final norm and the head after those of the last.
struct LayerRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return end - begin; }
  bool operator==(const LayerRange&) const = default;
};

// Ranges by stage, in the order of the model (see StagePlacement for which rank holds which stage).
// `stage_layers` gives the number of layers of each stage; empty: all equal. What does not fit is
// refused (exit code 2) with a split that does.
std::vector<LayerRange> assign_layers(std::int64_t num_layers, const StagePlacement& placement,
                                      const std::vector<std::int64_t>& stage_layers = {});

// As equal as possible; the stages in the middle take what is left over, because the first and the
// last also hold the embedding and the head.
std::vector<std::int64_t> balanced_stage_layers(std::int64_t num_layers, int stages);

}  // namespace trireme
