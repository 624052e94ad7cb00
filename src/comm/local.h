// Ranks as threads of one process: the whole communication layer without MPI, for tests.
#pragma once

#include <functional>

#include "comm/engine.h"
#include "comm/transport.h"

namespace trireme {

// Runs body(transport) once per rank, each in a thread of its own, and returns when all have ended.
// Messages complete only when both sides have posted them, as large ones do on a network. When a
// rank fails, its error goes through Transport::abort, the other ranks' calls fail, and the error
// that came first is rethrown here.
void run_local_ranks(int ranks, const ProgressOptions& options,
                     const std::function<void(Transport&)>& body);

}  // namespace trireme
