// Properties of the target machine that a plan needs: a file of machines/, which is part of the
// program, or one of the user's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/target.h"
#include "plan/timing/speed.h"

namespace trireme {

struct Machine {
  std::string name;
  Target target;
  std::optional<MachineSpeed> speed;  // where the file has figures
};

// Names of the machines that the program knows, in order.
std::vector<std::string> machine_names();

// The file of one of them; empty if there is none of that name.
std::string machine_text(const std::string& name);

// `name_or_file` is one of machine_names(), or a path. Empty: the processor that the program runs
// on, whose speed is unknown. Fails (exit code 2), naming the known machines, if there is none, and
// with the key if one in its file is unknown, wrong or missing.
Machine find_machine(const std::string& name_or_file);

// Bytes of a device of a machine whose file has figures.
std::int64_t device_memory_of(const std::string& name_or_file);

}  // namespace trireme
