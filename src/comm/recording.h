// Communicators of a simulated job that record their operations instead of running them.
#pragma once

#include <memory>

#include "backend/recording/record.h"
#include "comm/transport.h"

namespace trireme {

// Rank `rank` of `size`. Every operation completes immediately and moves nothing; the record, which
// outlives the transport, gets its groups, a message for each operation, with the bytes that this
// rank would send, and the waits for them.
std::unique_ptr<Transport> make_recording_transport(int rank, int size, Record& record);

}  // namespace trireme
