// Runs a launch script under bash, with shims in place of everything that would start a training or
// needs a cluster, and returns what it tried to start.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "importers/script/sandbox.h"

namespace trireme::script {

struct ScriptOptions {
  std::vector<std::string> arguments;            // $1 ...
  std::map<std::string, std::string> variables;  // as if set before the script, and by its queue
  std::int64_t devices = 0;                      // of a node; 0: as its #SBATCH lines say
  std::chrono::milliseconds limit{20'000};
  std::uint64_t memory = std::uint64_t{2} << 30;  // bytes that all its processes may hold
  // Which isolation to use; without a value the best that the machine allows, and never none.
  std::vector<Isolation> isolations = {Isolation::overlay, Isolation::landlock};
};

// One call of a shim.
struct Call {
  enum class Kind {
    call,     // a program that was not run
    asked,    // its output was read by the script, but is not known here
    devices,  // a list of devices was asked for, whose number was assumed
    wrapper,  // the command of a launcher, which was run
    absent,   // what is not on this machine: the command of a launcher, or "cd" and a folder
    failed,   // a command that failed where the script would have ended, or that reads settings
  };
  Kind kind = Kind::call;
  fs::path folder;
  int parent = -1;  // the call of a launcher that ran this one: srun ... bash inner.sh
  int line = 0;
  std::vector<std::string> arguments;            // with the name of the program
  std::map<std::string, std::string> files;      // contents of files among the arguments
  std::map<std::string, std::string> variables;  // SLURM_*
};

struct ScriptRun {
  std::vector<Call> calls;
  int status = 0;       // exit code of the script
  std::string problem;  // a limit that ended it; empty where it ended by itself
  std::string output;   // the last part of what it printed
  std::string text;     // of the script; may be empty
  Isolation isolation = Isolation::overlay;
  std::string weaker;  // why the isolation is not the best one
};

// The first of the wanted isolations that this machine can keep, found by trying it on nothing.
// Throws bad_input where there is none.
struct Reached {
  Isolation isolation = Isolation::overlay;
  std::string weaker;  // why it is not the best one
};
Reached reach_isolation(const ScriptOptions& options);

// Throws bad_input where no wanted isolation can be had.
ScriptRun run_script(const fs::path& script, const ScriptOptions& options);

}  // namespace trireme::script
