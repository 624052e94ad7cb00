// Position of another program's run as a Trireme checkpoint state.
#pragma once

#include "checkpoint/manifest.h"
#include "formats/foreign_model.h"

namespace trireme {

// The state for the checkpoint made from it. Defined in conversion.cpp.
CheckpointState state_of(const ForeignTraining& training);

}  // namespace trireme
