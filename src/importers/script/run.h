// Runs a launch script under bash, with shims in place of programs that start a training or need a
// cluster, and returns what it tried to start.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "importers/script/sandbox.h"

namespace trireme::script {

struct ScriptOptions {
  std::vector<std::string> arguments;            // $1 ...
  std::map<std::string, std::string> variables;  // as if set before the script; queues keep them
  std::int64_t devices = 0;                      // per node; 0: as in #SBATCH lines
  std::chrono::milliseconds limit{20'000};
  std::uint64_t memory = std::uint64_t{2} << 30;  // memory limit of all its processes in bytes
  // Acceptable isolations; by default the best one available, and never none.
  std::vector<Isolation> isolations = {Isolation::overlay, Isolation::landlock};
};

// A recorded call of a shim.
struct Call {
  enum class Kind {
    call,     // a program that was not executed
    asked,    // the script read its output, which is unknown here
    devices,  // the script queried devices; their number was assumed
    wrapper,  // a launcher's command, which was executed
    absent,   // not available here: a launcher's command, or "cd" to a folder
    failed,   // a failed command that would have ended the script, or that reads settings
  };
  Kind kind = Kind::call;
  fs::path folder;
  int parent = -1;  // the launcher's call that ran this one: srun ... bash inner.sh
  int line = 0;
  std::vector<std::string> arguments;            // including the program's name
  std::map<std::string, std::string> files;      // contents of files named in the arguments
  std::map<std::string, std::string> variables;  // SLURM_*
};

struct ScriptRun {
  std::vector<Call> calls;
  int status = 0;       // exit code of the script
  std::string problem;  // the limit that ended it; empty if it ended by itself
  std::string output;   // last part of its output
  std::string text;     // the script's text; may be empty
  Isolation isolation = Isolation::overlay;
  std::string weaker;  // why the isolation is not the best one
};

// The first acceptable isolation that this machine supports, determined by a trial run. Throws
// bad_input if there is none.
struct Reached {
  Isolation isolation = Isolation::overlay;
  std::string weaker;  // why it is not the best one
};
Reached reach_isolation(const ScriptOptions& options);

// Throws bad_input if no acceptable isolation is available.
ScriptRun run_script(const fs::path& script, const ScriptOptions& options);

}  // namespace trireme::script
