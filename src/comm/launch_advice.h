// Messages for a launcher and an MPI library that do not fit together.
#pragma once

#include <string>

#include "comm/transport.h"

namespace trireme {

// Before MPI starts, under an srun without PMIx: Open MPI then ends each process itself, with half
// a page about how SLURM should have been built. Empty otherwise.
std::string srun_warning(const std::string& library, const GetVariable& get);

// MPI sees another number of processes than the launcher started.
std::string launcher_mismatch(const LaunchInfo& launch, const std::string& library, int seen,
                              const GetVariable& get);

}  // namespace trireme
