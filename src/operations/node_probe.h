// Runs `trireme doctor --nodes` with the run's launcher to find unresponsive hosts.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace trireme {

// Returns the run's command with `doctor --nodes` in place of training: same launcher, hosts and
// processes. `good`: the output file for the good hosts. Empty if the command has no program of our
// name followed by `train` or `pretrain-...`.
std::vector<std::string> probe_command(const std::vector<std::string>& command,
                                       const fs::path& good, const fs::path& storage);

}  // namespace trireme
