// Finds in a launch script the command that starts Megatron, without running anything: assignments
// are followed, conditions decided where they can be, and loops walked, all within limits.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "megatron/translate.h"

namespace trireme::megatron {

struct ScriptOptions {
  std::string name = "script.sh";                // for messages, and $0
  std::vector<std::string> arguments;            // $1 ...
  std::map<std::string, std::string> variables;  // as if set before the script
};

// One command that starts pretrain_gpt.py or pretrain_bert.py.
struct Launch {
  int line = 0;
  Program program = Program::gpt;
  std::string script;                  // as it is called: "examples/pretrain_gpt.py"
  std::vector<std::string> launcher;   // what stands before: srun ..., torchrun ...
  std::vector<std::string> arguments;  // what stands behind
};

struct LaunchScript {
  std::vector<Launch> launches;
  std::map<std::string, std::string> files;  // what the script writes with cat or echo, by path
  std::vector<std::string> sbatch;           // words of #SBATCH lines
  // "line N": what was not followed and may matter. In launches, what has no value stands as its
  // source text, such as "$1".
  std::vector<Note> lost;
};

// Throws bad_input for text that is no shell script, and for one that goes beyond the limits.
LaunchScript read_launch_script(const std::string& text, const ScriptOptions& options);

// How many ranks a launch starts, where it says so.
struct LaunchSize {
  std::int64_t nodes = 1;     // 0: not known
  std::int64_t per_node = 1;  // 0: not known
  bool slurm = false;
};
LaunchSize launch_size(const Launch& launch, const std::vector<std::string>& sbatch);

}  // namespace trireme::megatron
