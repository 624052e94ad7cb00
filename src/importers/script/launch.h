// The commands that start a training, among all that a launch script called.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "importers/script/run.h"

namespace trireme::script {

// A command that starts pretrain_gpt.py or pretrain_bert.py, or another program that is given
// Megatron's flags.
struct Launch {
  std::size_t call = 0;  // the place of its call in the run of the script
  int line = 0;          // of the script, or of the script that it ran
  bool bert = false;     // pretrain_bert.py
  bool own = true;       // the program is Megatron's own
  // The command between launcher and program which did not start the program here: its flags may be
  // others. "" where there is none.
  std::string wrapper;
  bool wrapper_absent = false;
  std::string script;                            // as it is called: "examples/pretrain_gpt.py"
  std::vector<std::string> launcher;             // the words before it: srun ... torchrun ...
  std::vector<std::string> arguments;            // the words after it
  fs::path folder;                               // where it is started
  std::map<std::string, std::string> files;      // contents of files among the arguments
  std::map<std::string, std::string> variables;  // SLURM_*, CUDA_VISIBLE_DEVICES
};

// All of them, in the order of the calls.
std::vector<Launch> find_launches(const ScriptRun& run);

// The command of call number `call` as a launch, whatever it starts: its launchers, files and
// variables, and as arguments the words after its program of Python.
Launch launch_of_call(const ScriptRun& run, std::size_t call);

// The other programs of Python that were started: "train.py", "pretrain_t5.py".
std::vector<std::string> find_other_trainings(const ScriptRun& run);

// How many ranks a launch starts, where it says so.
struct LaunchSize {
  std::int64_t nodes = 1;     // 0: not known
  std::int64_t per_node = 1;  // 0: not known
  bool slurm = false;
};
LaunchSize launch_size(const Launch& launch);

}  // namespace trireme::script
