// The lines of training steps in a metrics.jsonl.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/file.h"

namespace trireme {

// By name, as text: numbers as they were written.
using StepMetrics = std::map<std::string, std::string>;

// By step, only lines of steps (which have a loss and a norm of the gradients), not those of
// evaluations. Torn lines are left out.
std::map<std::int64_t, StepMetrics> read_step_metrics(const fs::path& file);

}  // namespace trireme
