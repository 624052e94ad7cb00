// Messages for a mismatch of launcher and MPI library.
#pragma once

#include <string>

#include "comm/transport.h"

namespace trireme {

// Warning before MPI starts under srun without PMIx, where Open MPI exits in each process with half
// a page about how SLURM should have been built. Empty otherwise.
std::string srun_warning(const std::string& library, const GetVariable& get);

// Message if MPI sees a different number of processes than the launcher started.
std::string launcher_mismatch(const LaunchInfo& launch, const std::string& library, int seen,
                              const GetVariable& get);

}  // namespace trireme
