// From a launch script to a configuration file and the line that starts it.
#pragma once

#include <string>
#include <vector>

#include "megatron/launch_script.h"

namespace trireme::megatron {

struct Import {
  int line = 0;  // of the launch in the script
  Program program = Program::gpt;
  std::string toml;         // with comments that say where each value comes from
  std::string launch;       // "mpirun -n 4 trireme train FILE.toml"
  std::int64_t ranks = 0;   // 0: not known
  std::string incomplete;   // why the configuration cannot be trained yet; empty where it can
  std::vector<Note> lost;   // could not be carried over
  std::vector<Note> notes;  // carried over or harmless, but worth a line
};

// Reads the script's first launch and translates its flags leniently. `file` is the name that the
// launch line uses for the configuration. Files that the script names (DeepSpeed's configuration)
// are read where they lie, unless the script itself writes them. Throws bad_input for text that is
// no script, and where it starts neither pretrain_gpt.py nor pretrain_bert.py.
Import import_script(const std::string& text, const ScriptOptions& options,
                     const std::string& file);

}  // namespace trireme::megatron
