// A hash of all parameters in training that does not depend on the layout.
#pragma once

#include <cstdint>

#include "comm/transport.h"
#include "train/engine.h"

namespace trireme {

// Over the bits of every parameter as a checkpoint holds it, without padding. Collective, the same
// on all ranks; null: a single rank.
std::uint64_t weights_hash(Engine& engine, Transport* transport);

}  // namespace trireme
