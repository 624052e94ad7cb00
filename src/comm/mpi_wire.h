// The wire over the MPI part, which is loaded on opening.
#pragma once

#include <functional>
#include <memory>

#include "comm/wire.h"

struct trireme_mpi_functions;

namespace trireme {

// Called with the wire when MPI is initialized but has not waited for other ranks yet: context 0
// exists, and rank, size and host of the place are set.
using BeforeOthers = std::function<void(Wire&)>;

// Initializes MPI. Destroying the wire finalizes it, if all ranks have left.
// Fails with MPI's message.
std::unique_ptr<Wire> mpi_wire(const ::trireme_mpi_functions& mpi, const BeforeOthers& before);

}  // namespace trireme
