// Replacements for launchers, Python and cluster tools in a launch script: one small bash program
// under all their names, which records each call and succeeds.
#pragma once

#include <string>

#include "base/file.h"

namespace trireme::script {

// Writes into `folder`: bin/ (the shims, first in PATH) and startup (for BASH_ENV). The shims use
// these variables: TRIREME_BIN (folder/bin), TRIREME_CALLS (an existing folder for their
// records), TRIREME_BASH, TRIREME_SET (names set by the user, which queues keep) and TRIREME_GPUS
// (devices per node; may be empty). "bin/script FILE ARGUMENTS..." runs a script like a batch
// system.
void write_shims(const fs::path& folder);

// Path of bash. Throws bad_input if it is not installed.
std::string bash_path();

}  // namespace trireme::script
