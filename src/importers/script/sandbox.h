// Runs a program without side effects outside of a scratch folder: on files, on other processes or
// on the network.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/file.h"

namespace trireme::script {

// Isolation of files, best first. With the first two, a program cannot access the network, sockets
// or foreign processes, and has only an ordinary user's rights; if the kernel cannot guarantee
// that, the program is not started.
enum class Isolation {
  overlay,   // namespaces: the program's changes are visible only to it and discarded
  landlock,  // writes outside of the scratch folder are forbidden
  none       // no protection
};

struct SandboxRequest {
  std::vector<std::string> command;      // a program by its absolute path, and its arguments
  std::vector<std::string> environment;  // NAME=VALUE
  fs::path folder;                       // working directory
  fs::path scratch;                      // an existing folder; its run/ is writable
  std::vector<fs::path> shown;           // folders that must stay visible
  // CPU time of all processes together; the wall-clock limit is six times as long.
  std::chrono::milliseconds limit{};
  std::uint64_t memory = std::uint64_t{2} << 30;  // limit for all processes in bytes
  Isolation isolation = Isolation::overlay;
};

struct SandboxResult {
  bool started = false;  // false: `problem` says why this isolation is not available
  int status = 0;        // exit code, or 128 + signal
  std::string problem;   // limit that ended the program; empty if it ended by itself
  // Last part of standard output and error.
  std::string output;
  // Files 0, 1, 2 ... that the program left in scratch/calls.
  std::vector<std::string> calls;
};

// Runs the command without input until it and its children have ended or a limit is reached: time
// (CPU time, so that other load on the machine matters less), processes (500), memory, size of a
// file (64 MiB) and of all files (256 MiB). All processes that it started have ended on return.
// Throws what check_stopped() throws.
SandboxResult run_in_sandbox(const SandboxRequest& request);

}  // namespace trireme::script
