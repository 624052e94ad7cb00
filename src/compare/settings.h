// Positions and settings of two checkpoints, compared value by value.
#pragma once

#include <vector>

#include "compare/comparison.h"

namespace trireme {

// Of two checkpoints of ours all values; of a folder of another program those that it has.
std::vector<ValuePair> differing_positions(const Contents& a, const Contents& b);

// Settings of the model that change results.
std::vector<ValuePair> differing_results(const ModelConfig& a, const ModelConfig& b);

// All others, of two checkpoints of ours; with the record of a device's algorithms.
std::vector<ValuePair> differing_settings(const Contents& a, const Contents& b);

}  // namespace trireme
