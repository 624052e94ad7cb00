// The training of `trireme try`, which ends in time.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "cli/try_settings.h"

namespace trireme::cli {

using TryClock = std::chrono::steady_clock;

// Trains, or continues, the run that files.settings() describes. Where it has to be over by `end`
// and the machine becomes slower than planned, the run ends after fewer steps, at the end of a
// learning rate schedule of that length, which it follows from there on; files.mark() then says how
// many. `heldout_bytes` are evaluated afterwards.
void train_try(const TryFiles& files, std::optional<TryClock::time_point> end,
               std::size_t heldout_bytes);

}  // namespace trireme::cli
