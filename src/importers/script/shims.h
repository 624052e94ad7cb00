// Replacement for launchers, Python and tools of clusters in a launch script: one small bash
// program under all their names, which records how it was called and succeeds.
#pragma once

#include <string>

#include "base/file.h"

namespace trireme::script {

// Writes into `folder`: bin/ (the names, in front of PATH), startup (for BASH_ENV). The shims read
// these variables: TRIREME_BIN (folder/bin), TRIREME_CALLS (an existing folder for their records),
// TRIREME_BASH, TRIREME_SET (names the user has set, which queues do not change) and TRIREME_GPUS
// (devices of a node; may be empty). "bin/script FILE ARGUMENTS..." runs a script as a batch system
// would.
void write_shims(const fs::path& folder);

// Where bash is. Throws bad_input if it is not installed.
std::string bash_path();

}  // namespace trireme::script
