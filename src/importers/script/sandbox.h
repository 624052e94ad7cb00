// Runs a program so that nothing outside of a scratch folder changes: not a file, not another
// process, nothing on the network.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/file.h"

namespace trireme::script {

// How files are kept from changing, best first. With the first two a program reaches no network, no
// socket and no process but its own, and has no rights beyond those of an ordinary user; where the
// kernel cannot promise that, the program is not started.
enum class Isolation {
  overlay,   // namespaces: the program sees its own changes, which vanish with it
  landlock,  // the kernel forbids writing outside of the scratch folder
  none       // nothing is kept from changing
};

struct SandboxRequest {
  std::vector<std::string> command;      // a program by its full path, and its arguments
  std::vector<std::string> environment;  // NAME=VALUE
  fs::path folder;                       // where it starts
  fs::path scratch;                      // an existing folder; its run/ is writable
  std::vector<fs::path> shown;           // folders that stay visible wherever they lie
  // Of processors, for all processes together; by the clock six times as much.
  std::chrono::milliseconds limit{};
  std::uint64_t memory = std::uint64_t{2} << 30;  // bytes that all processes together may hold
  Isolation isolation = Isolation::overlay;
};

struct SandboxResult {
  bool started = false;  // false: `problem` says why this isolation cannot be had here
  int status = 0;        // exit code, or 128 and the signal
  std::string problem;   // a limit that ended the program; empty where it ended by itself
  // The last part of standard output and error.
  std::string output;
  // What the program left in scratch/calls: contents of the files 0, 1, 2 ...
  std::vector<std::string> calls;
};

// Runs the command with no input until it and its children have ended, or a limit is reached: of
// time, of which less counts on a machine that does other work too, of processes (500), of memory,
// of the size of a file (64 MiB) and of all files (256 MiB). Every process that it started has
// ended when this returns. Throws what check_stopped() throws.
SandboxResult run_in_sandbox(const SandboxRequest& request);

}  // namespace trireme::script
