// Reads the lines of training steps from a metrics.jsonl.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/file.h"

namespace trireme {

// Values by name, as the text in the file.
using StepMetrics = std::map<std::string, std::string>;

// Training steps by number (lines with a loss and a gradient norm), without evaluations. Truncated
// lines are skipped.
std::map<std::int64_t, StepMetrics> read_step_metrics(const fs::path& file);

}  // namespace trireme
