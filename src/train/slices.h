// Which pieces of which named tensors a rank holds: the border between training and checkpoints.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/region.h"
#include "optim/optimizer.h"
#include "tensors/optimizer_states.h"

namespace trireme {

struct SliceOptions {
  bool weights = true;
  bool moments = true;
};

// A part of a parameter as this rank has it in memory, as a region of the whole parameter without
// padding, and where it begins after the slice's first element.
struct PlacedRegion {
  Region region;
  std::int64_t offset = 0;  // elements
};

// Regions of the whole parameter that elements [begin, end) of a rank's part are; nothing for the
// padding.
std::vector<PlacedRegion> regions_of(const ParameterSpec& spec, std::int64_t begin,
                                     std::int64_t end);

// Slices that this rank saves: `saves(parameter)` is true on one of the ranks that hold copies.
// Valid until something is reallocated.
std::vector<SourceSlice> saved_slices(const Stage& stage, Optimizer& optimizer,
                                      const std::function<bool(const Parameter&)>& saves);
// Everything that this rank owns, as targets of a load.
std::vector<TargetSlice> loaded_slices(const Stage& stage, Optimizer& optimizer,
                                       const SliceOptions& options);

}  // namespace trireme
