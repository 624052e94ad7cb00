// Turns any exception into one of our errors: the same message and exit code wherever it is caught.
#pragma once

#include <exception>

#include "base/error.h"

namespace trireme {

// The exit code for a call to the system that failed with this errno: bad input where a name that
// the user gave does not exist or may not be used, else a failure (a full or broken disk).
ExitCode exit_code_of(int system_error);

// An Error as it is; of the file system's errors the paths and the reason.
Error as_error(const std::exception& caught);

}  // namespace trireme
