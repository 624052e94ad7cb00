// The ranks of a job as checkpoints talk to them.
#pragma once

#include "checkpoint/writer.h"
#include "comm/transport.h"

namespace trireme {

// The transport must outlive what is made from it.
Ranks checkpoint_ranks(Transport& transport);

}  // namespace trireme
