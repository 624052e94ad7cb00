// Parser of launcher messages about hosts: Open MPI's mpirun and prterun, MPICH's Hydra, srun, and
// the ssh that some of them use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Returns the text between two others, or the rest of the line if `after` is empty; "" if they do
// not occur in this order.
std::string_view between(std::string_view line, std::string_view before, std::string_view after);
std::string_view without_blanks(std::string_view text);

// Parses a launcher's output line by line.
class LauncherWords {
 public:
  // Returns the hosts on which, according to the launcher, a process was killed by a signal, or
  // which it has lost; usually none.
  std::vector<std::string> failed_hosts(std::string_view line);

 private:
  std::string_view failed_host(std::string_view line);
  std::string_view blamed_by_hydra(std::string_view line);
  std::string_view lost_by_open_mpi(std::string_view line);
  std::string_view blamed_by_srun(std::string_view line);

  std::string running_;  // Hydra names the host a few lines before it reports the event there
  bool step_is_ending_ = false;  // srun ends a step after its first failure
  std::string_view wanted_;      // text before the host in one of the next lines of Open MPI
};

}  // namespace trireme
