// Leftovers of killed MPI jobs on this machine: shared memory and session folders.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

namespace trireme {

struct MpiLeftovers {
  std::vector<std::string> paths;  // owned by this user and not in use by a live process
  std::int64_t bytes = 0;          // of shared memory
};

// Searches where Open MPI and MPICH create them. Excludes everything that a live process of this
// user has open or mapped. `since`: only those created at or after this time.
MpiLeftovers find_mpi_leftovers(std::time_t since = 0);

// Removes them; returns how many could be removed.
int remove_leftovers(const MpiLeftovers& leftovers);

}  // namespace trireme
