// Leftovers of killed MPI jobs on this machine: shared memory and session folders.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

namespace trireme {

struct MpiLeftovers {
  std::vector<std::string> paths;  // of this user, and of no process that lives
  std::int64_t bytes = 0;          // of shared memory
};

// Looks for them where Open MPI and MPICH put them. What a living process of this user has open or
// mapped is not among them. `since`: only what was made then or later.
MpiLeftovers find_mpi_leftovers(std::time_t since = 0);

// Removes them; returns how many could be removed.
int remove_leftovers(const MpiLeftovers& leftovers);

}  // namespace trireme
