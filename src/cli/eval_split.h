// The loss of a trained model on the data of its own run.
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

// Loss on the first `samples` of that split, in the order of the run, or (0) on those of the run's
// first evaluation; for the test split that is what the run itself evaluates at its end. Fails
// (exit code 2) if the run has no such data.
SplitLoss evaluate_split(TrainedModel& model, Split split, std::int64_t samples);

}  // namespace trireme::cli
