// Messages of launchers about hosts: Open MPI's mpirun and prterun, MPICH's Hydra, srun, and the
// ssh that some of them start.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The text between two others, to the end of the line for an empty second one; "" if they do not
// follow each other.
std::string_view between(std::string_view line, std::string_view before, std::string_view after);
std::string_view without_blanks(std::string_view text);

// Reads a launcher's lines one by one.
class LauncherWords {
 public:
  // The hosts on which the launcher says that a process was killed by a signal, or which it has
  // lost; mostly none.
  std::vector<std::string> failed_hosts(std::string_view line);

 private:
  std::string_view failed_host(std::string_view line);
  std::string_view blamed_by_hydra(std::string_view line);
  std::string_view lost_by_open_mpi(std::string_view line);
  std::string_view blamed_by_srun(std::string_view line);

  std::string running_;  // Hydra names the host some lines before it says what happened there
  bool step_is_ending_ = false;  // since srun ends a step after its first failure
  std::string_view wanted_;      // what comes before the host in one of the next lines of Open MPI
};

}  // namespace trireme
