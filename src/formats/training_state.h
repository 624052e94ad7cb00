// The position of another program's run in the form of our checkpoints.
#pragma once

#include "checkpoint/manifest.h"
#include "formats/foreign_model.h"

namespace trireme {

// As the checkpoint that is made of it holds it. Defined with the conversion (conversion.cpp).
CheckpointState state_of(const ForeignTraining& training);

}  // namespace trireme
