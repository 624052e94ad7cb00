// Ranks as threads of one process: the whole communication layer without MPI.
#pragma once

#include <functional>

#include "comm/engine.h"
#include "comm/transport.h"

namespace trireme {

// Runs body(transport) once per rank, each in a separate thread, and returns when all have ended.
// Messages complete only once both sides have posted them, like large ones on a network. If a
// rank fails, its error goes through Transport::abort, calls of the other ranks fail, and the
// first error is rethrown here.
void run_local_ranks(int ranks, const ProgressOptions& options,
                     const std::function<void(Transport&)>& body);

}  // namespace trireme
