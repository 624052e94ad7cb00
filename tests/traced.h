// Runs code in a child process under ptrace: records its file system calls and can kill it right
// before any system call. The code under test needs no hooks.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace trireme {

struct Traced {
  int system_calls = 0;  // number of system calls that were started
  bool killed = false;
  int exit_code = -1;  // of a child that was not killed
  // "fsync PATH", "mkdir PATH", "rename FROM", "unlink PATH", in order.
  std::vector<std::string> calls;
};

namespace traced {

inline std::string text_at(pid_t child, unsigned long long address) {
  const int memory = ::open(fmt::format("/proc/{}/mem", child).c_str(), O_RDONLY | O_CLOEXEC);
  std::array<char, 4096> bytes{};
  const ssize_t n = ::pread(memory, bytes.data(), bytes.size() - 1, static_cast<off_t>(address));
  ::close(memory);
  return n > 0 ? std::string(bytes.data()) : std::string();
}

inline void record(pid_t child, const user_regs_struct& at, Traced& traced) {
  switch (at.orig_rax) {
    case SYS_fsync: {
      std::error_code error;
      const std::filesystem::path link = fmt::format("/proc/{}/fd/{}", child, at.rdi);
      traced.calls.push_back("fsync " + std::filesystem::read_symlink(link, error).string());
      break;
    }
    case SYS_mkdir:
      traced.calls.push_back("mkdir " + text_at(child, at.rdi));
      break;
    case SYS_rename:
      traced.calls.push_back("rename " + text_at(child, at.rdi));
      break;
    case SYS_unlink:
      traced.calls.push_back("unlink " + text_at(child, at.rdi));
      break;
    default:
      break;
  }
}

}  // namespace traced

// Runs `body` in a child. Before each of its system calls, counted from 0, the child stops while
// before(number) runs here; false kills it there. The child has no other threads of this process,
// so `body` must not use the global pool.
template <class Body>
Traced run_traced(Body&& body, const std::function<bool(int)>& before = {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(1);
    }
    std::_Exit(0);
  }
  Traced traced;
  int status = 0;
  ::waitpid(child, &status, 0);
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  for (bool entering = true;; entering = !entering) {
    if (::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) != 0) break;
    ::waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) break;
    EXPECT_EQ(WSTOPSIG(status), SIGTRAP | 0x80) << "the child was stopped by a signal";
    if (!entering) continue;
    user_regs_struct registers{};
    ::ptrace(PTRACE_GETREGS, child, nullptr, &registers);
    if (before && !before(traced.system_calls)) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      traced.killed = true;
      return traced;
    }
    ++traced.system_calls;
    traced::record(child, registers, traced);
  }
  traced.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return traced;
}

// The same, but killed before system call `number`.
template <class Body>
Traced run_killed_at(int number, Body&& body) {
  return run_traced(body, [number](int call) { return call != number; });
}

}  // namespace trireme
