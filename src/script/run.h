// Runs a launch script under bash, with shims in place of everything that would start a training or
// needs a cluster, and returns what it tried to start.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "script/sandbox.h"

namespace trireme::script {

struct ScriptOptions {
  std::vector<std::string> arguments;            // $1 ...
  std::map<std::string, std::string> variables;  // as if set before the script, and by its queue
  std::int64_t devices = 0;                      // of a node; 0: as its #SBATCH lines say
  std::chrono::milliseconds limit{20'000};
  // Which isolation to use; without a value the best that the machine allows, and never none.
  std::vector<Isolation> isolations = {Isolation::overlay, Isolation::landlock};
};

// One call of a shim.
struct Call {
  enum class Kind {
    call,     // a program that was not run
    asked,    // its output was read by the script, but is not known here
    devices,  // a list of devices was asked for, whose number was assumed
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
  Isolation isolation = Isolation::overlay;
  std::string weaker;  // why the isolation is not the best one
};

// Throws bad_input where no wanted isolation can be had.
ScriptRun run_script(const fs::path& script, const ScriptOptions& options);

}  // namespace trireme::script
