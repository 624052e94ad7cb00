// Environment variables that begin with TRIREME_: which are set, and whether they are
// known.
#pragma once

#include <string>
#include <vector>

namespace trireme::cli {

struct OwnVariable {
  std::string name;
  bool known = true;
  std::string nearest;  // likely intended name of an unknown one; or ""
};

// Returns the variables of this process, by name.
std::vector<OwnVariable> own_variables();

// Prints a warning to standard error for each unknown variable similar to a known one. In a job
// only rank 0 does.
void warn_of_misspelt_variables();

}  // namespace trireme::cli
