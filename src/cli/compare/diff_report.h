// The report of `trireme diff` and `convert --verify` on a comparison.
#pragma once

#include <string>

#include "compare/comparison.h"

namespace trireme::cli {

// Formats "3 of 57 tensors differ; the first in the order of the forward pass is
// 'layers.1.mlp.up.weight', ...", or that all are equal.
std::string verdict_text(const Comparison& found);

// Formats the full report, with at most `most_rows` tensors.
std::string comparison_text(const Contents& a, const Contents& b, const Comparison& found,
                            std::size_t most_rows);
// Formats the comparison as one JSON object.
std::string comparison_json(const Contents& a, const Contents& b, const Comparison& found);

}  // namespace trireme::cli
