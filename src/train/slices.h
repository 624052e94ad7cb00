// Which pieces of which named tensors a process holds: the border between training and checkpoints.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/region.h"
#include "optim/optimizer.h"

namespace trireme {

// Names on disk: a parameter's master weights under its own name, its moments behind a prefix.
std::string moment_name(const std::string& parameter, int which);

struct SliceOptions {
  bool weights = true;
  bool moments = true;
};

// All that must be saved, without the padding of the vocabulary. Valid while nothing is
// reallocated.
std::vector<SourceSlice> saved_slices(const Stage& stage, const Optimizer& optimizer);
// The same as targets of a load.
std::vector<TargetSlice> loaded_slices(const Stage& stage, const Optimizer& optimizer,
                                       const SliceOptions& options);

}  // namespace trireme
