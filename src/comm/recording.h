// Communicators of a simulated job that record their operations instead of running them.
#pragma once

#include <memory>

#include "backend/recording/record.h"
#include "comm/transport.h"

namespace trireme {

// Transport of rank `rank` of `size`. Operations complete immediately and move nothing; the record,
// which must outlive the transport, gets the groups, a message per operation with the bytes that
// this rank would send, and the waits for them.
std::unique_ptr<Transport> make_recording_transport(int rank, int size, Record& record);

}  // namespace trireme
