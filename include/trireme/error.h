// The exception that the library throws: a message and the kind of error.
#pragma once

#include <stdexcept>
#include <string>

#include <trireme/export.h>

namespace trireme::v1 {

// Kind of error; its value is the exit code of the program.
enum class ExitCode {
  failed = 1,       // a failure while running: a full disk, a NaN, a lost process
  bad_input = 2,    // a file, a key or an argument is wrong
  interrupted = 3,  // stopped by a signal after everything was saved
};

// Thrown for all errors of the library. The message says what was wrong, where, and what to do.
// Functions of the program that the library calls (such as Dataset::fill) may throw it too, or any
// other exception: the library function that called them rethrows it.
class TRIREME_API Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message);
  ~Error() override;
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace trireme::v1
