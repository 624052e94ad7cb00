// The error that everything throws: one clear message and the exit code that belongs to it.
#pragma once

#include <stdexcept>
#include <string>

#include <trireme/export.h>

namespace trireme {

// Exit codes of the program, and categories of errors for whoever catches them.
// ok:          never thrown.
// failed:      something went wrong while it ran (a full disk, a NaN, a lost process).
// bad_input:   a file, a key or an argument is wrong; the message says what was expected.
// interrupted: a signal asked for an end, and everything was saved.
enum class ExitCode { ok = 0, failed = 1, bad_input = 2, interrupted = 3 };

// Thrown for what the caller cannot repair. The message says what was wrong, where, and what to do.
class TRIREME_API Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace trireme
