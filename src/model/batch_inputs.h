// Copies a batch to the inputs of a stage.
#pragma once

#include <span>

#include "data/batch.h"
#include "parallel/context.h"
#include "runtime/stage.h"

namespace trireme {

// Copies the inputs that the stage has to one of its slots. The batch must have the shape that the
// stage was built for. Packed prediction inputs take only the rows of nonzero weight; with context
// parallelism only this rank's positions are copied. The k-th further prediction of a model with
// multi-token prediction has the target and the loss weight of the k-th position after its own,
// times `further[k - 1]` (1 without), and none at the end of a sequence.
void load_batch(const Stage& stage, int slot, const Batch& batch,
                const ContextParallel& context = {}, std::span<const double> further = {});

// Whether the stage needs inputs that only the data provides, beyond sample ids and consecutive
// positions.
bool reads_data(const StageDefinition& stage, bool positions_of_documents);

}  // namespace trireme
