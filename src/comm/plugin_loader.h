// Loads the MPI plugin and joins the job through it.
#pragma once

#include <memory>

#include "comm/mpi_wire.h"
#include "comm/transport.h"
#include "comm/wire.h"

namespace trireme {

// Joins a job of several processes that `launch` started. Fails, with a message from one of them,
// if MPI does not see the others: each would run the whole job, on the same files.
std::unique_ptr<Wire> open_mpi_wire(const LaunchInfo& launch, const BeforeOthers& before);

}  // namespace trireme
