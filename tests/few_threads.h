// Helper for death tests of commands on a system that cannot start more threads.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/error.h"

namespace trireme {

// Runs `body` in this process with at most two more threads, prints the message of the Error that
// it throws, and exits with its code.
template <class Body>
[[noreturn]] void exit_with_few_threads(Body&& body) {
  // The limit does not apply to root, and "nobody" has no other process here.
  constexpr uid_t nobody = 65534;
  if (::getuid() == 0) static_cast<void>(::setuid(nobody) == 0);
  const struct rlimit limit { 3, 3 };
  if (::setrlimit(RLIMIT_NPROC, &limit) != 0) std::_Exit(99);
  try {
    body();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(static_cast<int>(error.code()));
  }
  std::_Exit(0);
}

}  // namespace trireme
