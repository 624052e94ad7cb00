// Finds the processes of a job by the variables that the launcher set in their environment.
#pragma once

#include <signal.h>

#include <map>

#include "jobs.h"

namespace trireme::testing_cli {

// Returns a variable's value in the contents of /proc/PID/environ; empty if it is not set.
inline std::string variable_of(const std::string& environment, const std::string& name) {
  std::istringstream entries(environment);
  for (std::string entry; std::getline(entries, entry, '\0');) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

// Returns process IDs by rank of the job in a run's folder; empty before MPI has started them.
inline std::map<int, pid_t> ranks_of(const std::string& job) {
  std::map<int, pid_t> ranks;
  std::error_code ignored;  // processes come and go
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string environment = contents(entry.path() / "environ");
    if (variable_of(environment, "TRIREME_TEST_JOB") != job) continue;
    for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
      const std::string rank = variable_of(environment, variable);
      if (!rank.empty()) ranks[std::stoi(rank)] = static_cast<pid_t>(std::stol(name));
    }
  }
  return ranks;
}

}  // namespace trireme::testing_cli
