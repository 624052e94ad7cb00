// What a plan has to know of the machine that will run it: a file of machines/, which is part of
// the program, or one of the user's.
#pragma once

#include <string>
#include <vector>

#include "backend/target.h"

namespace trireme {

// Names of the machines that the program knows, in order.
std::vector<std::string> machine_names();

// The target of a machine: `name_or_file` is one of machine_names(), or a path. Empty: the
// processor that the program runs on. Fails (exit code 2), naming what is known, where there is no
// such machine, and with the key where its file has one that is unknown or wrong.
Target find_machine(const std::string& name_or_file);

}  // namespace trireme
