// What ends a command, as one of our errors: the same words and exit code wherever it is caught.
#pragma once

#include <exception>

#include "base/error.h"

namespace trireme {

// The exit code for a call to the system that failed with this errno: bad input where a name that
// the user gave leads nowhere or is closed to him, else a failure (a full disk, a broken one).
ExitCode exit_code_of(int system_error);

// An Error as it is; of the file system's errors the paths and the reason.
Error as_error(const std::exception& caught);

}  // namespace trireme
