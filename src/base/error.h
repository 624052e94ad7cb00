// Errors that end a command, with one message and an exit code.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace trireme {

// Exit codes of the program, as documented in docs/operations.md.
enum class ExitCode { ok = 0, failed = 1, bad_input = 2, interrupted = 3 };

// Thrown for errors the caller cannot handle. The message says what is wrong, where, and the fix.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Throws an Error with exit code 2: a file, a flag or a configuration is wrong.
template <class... Args>
[[noreturn]] void fail_input(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ExitCode::bad_input, fmt::format(format, std::forward<Args>(args)...));
}

// Throws an Error with exit code 1: something failed at run time.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ExitCode::failed, fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace trireme

// Checks an invariant in every build: for interfaces where a silent error would be costly.
#define TRIREME_CHECK(condition) \
  ((condition) ? void() : ::trireme::assertion_failed(#condition, __FILE__, __LINE__))

// Checks an invariant only in builds with assertions: for inner loops.
#ifdef TRIREME_ASSERTIONS
#define TRIREME_ASSERT(condition) TRIREME_CHECK(condition)
#else
#define TRIREME_ASSERT(condition) void()
#endif
