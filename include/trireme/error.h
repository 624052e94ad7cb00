// The error that the library throws: one clear message and what kind of error it is.
#pragma once

#include <stdexcept>
#include <string>

#include <trireme/export.h>

namespace trireme::v1 {

// What kind of error it is; also the exit code that belongs to it.
enum class ExitCode {
  failed = 1,       // something went wrong while it ran: a full disk, a NaN, a lost process
  bad_input = 2,    // a file, a key or an argument is wrong
  interrupted = 3,  // a signal asked for an end, and everything was saved
};

// Thrown for what the caller cannot repair. The message says what was wrong, where, and what to do.
// Functions of a program that the library calls (Dataset::fill and the like) may throw it as well,
// or anything else: it comes out of the call that led there.
class TRIREME_API Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message);
  ~Error() override;
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace trireme::v1
