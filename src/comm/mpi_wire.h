// The wire over the MPI part, which is loaded when it is opened.
#pragma once

#include <memory>

#include "comm/wire.h"

struct trireme_mpi_functions;

namespace trireme {

// Initialises MPI. Destroying the wire finalizes it, where all ranks have left. Fails with what MPI
// says.
std::unique_ptr<Wire> mpi_wire(const ::trireme_mpi_functions& mpi);

}  // namespace trireme
