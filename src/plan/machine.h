// Properties of the target machine for a plan, from a built-in file of machines/ or from a file of
// the user.
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
  std::optional<MachineSpeed> speed;  // if the file has figures
};

// Names of the built-in machines, in order.
std::vector<std::string> machine_names();

// Returns the text of a built-in machine file; empty if the name is unknown.
std::string machine_text(const std::string& name);

// `name_or_file` is one of machine_names(), or a path. Empty: the local processor, whose speed is
// unknown. Fails (exit code 2), naming the known machines, if it does not exist, or naming the key
// if one in its file is unknown, wrong or missing.
Machine find_machine(const std::string& name_or_file);

// Memory in bytes of a device of a machine whose file has figures.
std::int64_t device_memory_of(const std::string& name_or_file);

}  // namespace trireme
