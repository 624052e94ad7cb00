// Evaluates a trained model on a split of its own run's data.
#pragma once

#include <cstdint>
#include <span>

#include "data/split.h"
#include "generate/trained_model.h"
#include "model/losses.h"

namespace trireme::cli {

struct SplitLoss {
  LossSum sum;
  std::int64_t samples = 0;
};

// Loss on the first `samples` samples of the split, in the run's order, or (0) on those of the
// run's first evaluation; for the test split these are the ones that the run evaluates at its end.
// Fails (exit code 2) if the run has no such data.
SplitLoss evaluate_split(TrainedModel& model, Split split, std::int64_t samples);

}  // namespace trireme::cli
