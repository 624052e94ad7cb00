// How the ranks of a job communicate about checkpoints.
#pragma once

#include "checkpoint/writer.h"
#include "comm/transport.h"

namespace trireme {

// The transport must outlive what is made from it.
Ranks checkpoint_ranks(Transport& transport);

}  // namespace trireme
