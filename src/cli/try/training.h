// Training of `trireme try` within a time limit.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "cli/try/settings.h"

namespace trireme::cli {

using TryClock = std::chrono::steady_clock;

// Trains, or continues, the run described by files.settings(). If it must end by `end` and the
// machine becomes slower than planned, the run has fewer steps and follows from there on a learning
// rate schedule of that length; files.mark() then records the number. `heldout_bytes` are evaluated
// afterwards.
void train_try(const TryFiles& files, std::optional<TryClock::time_point> end,
               std::size_t heldout_bytes);

}  // namespace trireme::cli
