// The wire over the MPI part, which is loaded when it is opened.
#pragma once

#include <functional>
#include <memory>

#include "comm/wire.h"

struct trireme_mpi_functions;

namespace trireme {

// Is given the wire when MPI is initialized and has not waited for any other rank yet: context 0 is
// there, and of the place rank, size and host.
using BeforeOthers = std::function<void(Wire&)>;

// Initializes MPI. Destroying the wire finalizes it, where all ranks have left. Fails with what MPI
// says.
std::unique_ptr<Wire> mpi_wire(const ::trireme_mpi_functions& mpi, const BeforeOthers& before);

}  // namespace trireme
