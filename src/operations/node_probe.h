// Asks `trireme doctor --nodes`, started as the run is, which hosts do not answer.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace trireme {

// The command of a run with `doctor --nodes` in place of what trains: the same launcher, hosts and
// processes. `good`: the file that will list the good hosts. Empty where no word of the command is
// a program named like ours before `train` or `pretrain-...`.
std::vector<std::string> probe_command(const std::vector<std::string>& command,
                                       const fs::path& good, const fs::path& storage);

}  // namespace trireme
