// Converts any exception to an Error, with the same message and exit code wherever it is caught.
#pragma once

#include <exception>

#include "base/error.h"

namespace trireme {

// Exit code for a system call that failed with this errno: bad_input if a name that the user gave
// does not exist or is not accessible, otherwise failed (for example a full disk).
ExitCode exit_code_of(int system_error);

// Returns an Error unchanged; for filesystem errors, the message has the paths and the reason.
Error as_error(const std::exception& caught);

}  // namespace trireme
