// From a launch script to a configuration file and the line that starts it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "importers/megatron/translate.h"
#include "importers/script/launch.h"
#include "importers/script/run.h"

namespace trireme::megatron {

struct Import {
  int line = 0;  // of the launch in the script
  Program program = Program::gpt;
  std::string toml;             // with comments that name the origin of each value
  std::string launch;           // "mpirun -n 4 trireme train FILE.toml"
  std::int64_t ranks = 0;       // 0: not known
  std::string incomplete;       // why the configuration cannot be trained yet; empty where it can
  std::vector<Note> lost;       // could not be carried over: the training would be a different one
  std::size_t lost_beyond = 0;  // the number of those that are not listed
  std::vector<Note> notes;      // carried over or harmless, but worth a line
};

struct ImportOptions {
  script::ScriptOptions script;
  std::string file;     // the name of the configuration in the launch line
  std::string device;   // run.device, where the user says it
  std::string program;  // "gpt", "bert": how flags of a program are read that is not Megatron's own
  std::vector<std::string> added;  // arguments after those of the launch
  int launch = 0;                  // which of several trainings; 0: there must be one
};

// Refuses (exit code 2) a file that is no shell script: a program of Python, a binary file.
void require_shell_script(const fs::path& path);

// Runs a script, which has to be one (see above).
script::ScriptRun run_launch_script(const fs::path& path, const ImportOptions& options);

// Runs the script and translates the flags of the training that it starts, leniently. Files that
// the flags name (DeepSpeed's configuration) are read as they are when the training starts. Throws
// bad_input where the script starts no training, or several different ones.
Import import_script(const fs::path& path, const ImportOptions& options);

// The same, once the script has been run.
Import import_run(const script::ScriptRun& run, const std::string& name,
                  const ImportOptions& options);

// The parts of an import that do not depend on whose flags a launch has. What the run of the script
// itself leaves open before that launch:
void note_run(const script::ScriptRun& run, const script::Launch& launch, Import& result);
// Where the script may say whose GPUs it trains on, the strongest hint first: tools that it calls,
// its launcher and partition, all that it calls, its text.
std::vector<std::string> device_hints(const script::ScriptRun& run, const script::Launch& launch);
// A file that a launch names, as it was when the training started; nothing where it is not there.
std::optional<std::string> text_of_launch(const script::Launch& launch, const std::string& path);

}  // namespace trireme::megatron
