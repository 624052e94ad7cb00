// Converts a launch script to a configuration file and its launch line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "importers/megatron/translate.h"
#include "importers/script/launch.h"
#include "importers/script/run.h"

namespace trireme::megatron {

struct Import {
  int line = 0;  // line of the launch in the script
  Program program = Program::gpt;
  std::string toml;             // with comments on the origin of each value
  std::string launch;           // "mpirun -n 4 trireme train FILE.toml"
  std::int64_t ranks = 0;       // 0: unknown
  std::string incomplete;       // why it cannot be trained yet; empty if it can
  std::vector<Note> lost;       // settings not carried over: training would differ
  std::size_t lost_beyond = 0;  // number of those not listed
  std::vector<Note> notes;      // harmless or carried over, but worth mentioning
};

struct ImportOptions {
  script::ScriptOptions script;
  std::string file;                // file name of the configuration in the launch line
  std::string device;              // run.device, if given by the user
  std::string program;             // "gpt", "bert": type of a program that is not Megatron's
  std::vector<std::string> added;  // arguments appended to those of the launch
  int launch = 0;                  // number of the training to use; 0: the only one
};

// Refuses (exit code 2) files that are not shell scripts: Python programs, binary files.
void require_shell_script(const fs::path& path);

// Runs a script; see require_shell_script().
script::ScriptRun run_launch_script(const fs::path& path, const ImportOptions& options);

// Runs the script and translates the flags of the training it starts, leniently. Files named by
// flags (DeepSpeed's configuration) are read as they are when the training starts. Throws bad_input
// if the script starts no training, or several different ones.
Import import_script(const fs::path& path, const ImportOptions& options);

// Same, for a script that has already been run.
Import import_run(const script::ScriptRun& run, const std::string& name,
                  const ImportOptions& options);

// Parts of an import that do not depend on the program launched. Notes what the script's run left
// open before the launch:
void note_run(const script::ScriptRun& run, const script::Launch& launch, Import& result);
// Texts that may reveal the GPU vendor, strongest hint first: tools called by the script, its
// launcher and partition, all commands, its text.
std::vector<std::string> device_hints(const script::ScriptRun& run, const script::Launch& launch);
// Content of a file named by a launch, as of the launch; nullopt if it does not exist.
std::optional<std::string> text_of_launch(const script::Launch& launch, const std::string& path);

}  // namespace trireme::megatron
