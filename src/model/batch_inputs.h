// The inputs that a stage reads of a batch.
#pragma once

#include "data/batch.h"
#include "parallel/context.h"
#include "runtime/stage.h"

namespace trireme {

// Copies the inputs that the stage has into a slot of it. The batch has the shape that the stage
// was built for. Inputs of packed predictions take the rows with a weight other than 0. Of
// sequences that ranks share, this rank's positions are copied.
void load_batch(const Stage& stage, int slot, const Batch& batch,
                const ContextParallel& context = {});

// Whether the stage reads anything that only the data can tell: not just the numbers of samples, or
// positions that count up.
bool reads_data(const StageDefinition& stage, bool positions_of_documents);

}  // namespace trireme
