// Compares positions and settings of two checkpoints.
#pragma once

#include <string_view>
#include <vector>

#include "compare/comparison.h"

namespace trireme {

// All values for two Trireme checkpoints; for another program's folder, those it has.
std::vector<ValuePair> differing_positions(const Contents& a, const Contents& b);

// Model settings that change results.
std::vector<ValuePair> differing_results(const ModelConfig& a, const ModelConfig& b);

// All other settings of two Trireme checkpoints, including a device's tuning record.
std::vector<ValuePair> differing_settings(const Contents& a, const Contents& b);

// Whether a setting decides only where values are computed and kept, apart from their rounding.
bool is_of_layout(std::string_view key);

}  // namespace trireme
