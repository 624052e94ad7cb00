// Finds weights of a checkpoint that a model would leave out.
#pragma once

#include <string>

#include "checkpoint/reader.h"
#include "config/config.h"

namespace trireme {

// Describes the weights of a checkpoint that the model of `config` lacks, with the settings that
// differ; "" if there are none. Modules of multi-token prediction, and the loads of
// experts, are training aids, which a run may drop.
std::string left_out_weights(const CheckpointReader& reader, const Config& config);

}  // namespace trireme
