// The environment variables that begin with TRIREME_: those that are set, and whether anything
// reads them.
#pragma once

#include <string>
#include <vector>

namespace trireme::cli {

struct OwnVariable {
  std::string name;
  bool known = true;
  std::string nearest;  // of one that is not known: what was probably meant; or ""
};

// The variables of this process, by name.
std::vector<OwnVariable> own_variables();

// Prints a line to standard error for each unknown variable that looks like a known one. In a job
// only the first rank does.
void warn_of_misspelt_variables();

}  // namespace trireme::cli
