// Finds the commands that start a training among all calls of a launch script.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "importers/script/run.h"

namespace trireme::script {

// A command that starts pretrain_gpt.py, pretrain_bert.py or another program with Megatron's
// flags.
struct Launch {
  std::size_t call = 0;  // index of its call in the script's run
  int line = 0;          // line in the script, or in the script that it ran
  bool bert = false;     // pretrain_bert.py
  bool hybrid = false;   // pretrain_hybrid.py, or pretrain_mamba.py
  bool own = true;       // the program is Megatron's own
  // Command between launcher and program that did not start the program here, so its flags may be
  // different. "" if there is none.
  std::string wrapper;
  bool wrapper_absent = false;
  std::string script;                            // as given: "examples/pretrain_gpt.py"
  std::vector<std::string> launcher;             // words before it: srun ... torchrun ...
  std::vector<std::string> arguments;            // words after it
  fs::path folder;                               // working directory
  std::map<std::string, std::string> files;      // contents of files named in the arguments
  std::map<std::string, std::string> variables;  // SLURM_*, CUDA_VISIBLE_DEVICES
};

// All launches, in the order of calls.
std::vector<Launch> find_launches(const ScriptRun& run);

// The command of call number `call` as a launch, whatever it starts: its launchers, files and
// variables; arguments are the words after its Python program.
Launch launch_of_call(const ScriptRun& run, std::size_t call);

// Other Python programs that were started: "train.py", "pretrain_t5.py".
std::vector<std::string> find_other_trainings(const ScriptRun& run);

// Number of ranks of a launch, as far as known.
struct LaunchSize {
  std::int64_t nodes = 1;     // 0: unknown
  std::int64_t per_node = 1;  // 0: unknown, or not the same on all nodes
  std::int64_t uneven = 0;    // ranks of all nodes where nodes differ
  bool slurm = false;

  // 0: unknown
  std::int64_t ranks() const { return uneven > 0 ? uneven : nodes * per_node; }
};
LaunchSize launch_size(const Launch& launch);

}  // namespace trireme::script
