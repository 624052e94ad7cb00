// A hash of all parameters in training that is independent of the parallel layout.
#pragma once

#include <cstdint>

#include "comm/transport.h"
#include "train/engine/engine.h"

namespace trireme {

// Hashes the bits of every parameter in checkpoint form, without padding. Collective, with the same
// result on all ranks; null: a single rank.
std::uint64_t weights_hash(Engine& engine, Transport* transport);

}  // namespace trireme
