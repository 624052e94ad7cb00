// Errors that end a command: one clear message and the exit code that belongs to it.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace trireme {

// Exit codes of the program, as documented in docs/operations.md.
enum class ExitCode { ok = 0, failed = 1, bad_input = 2, interrupted = 3 };

// Thrown for what the caller cannot repair. The message says what was wrong, where, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Ends the command with exit code 2: a file, a flag or a configuration is wrong.
template <class... Args>
[[noreturn]] void fail_input(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ExitCode::bad_input, fmt::format(format, std::forward<Args>(args)...));
}

// Ends the command with exit code 1: something failed while it ran.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ExitCode::failed, fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace trireme

// Checks an invariant of our own code, always: for borders where a silent error would be costly.
#define TRIREME_CHECK(condition) \
  ((condition) ? void() : ::trireme::assertion_failed(#condition, __FILE__, __LINE__))

// Checks an invariant in builds with assertions only: for inner loops.
#ifdef TRIREME_ASSERTIONS
#define TRIREME_ASSERT(condition) TRIREME_CHECK(condition)
#else
#define TRIREME_ASSERT(condition) void()
#endif
