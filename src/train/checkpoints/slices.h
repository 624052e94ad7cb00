// Maps a rank's tensors to named slices: the interface between training and checkpoints.
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

// A part of a parameter in this rank's memory: its region of the full parameter without padding,
// and its offset from the slice's first element.
struct PlacedRegion {
  Region region;
  std::int64_t offset = 0;  // elements
};

// Returns the regions of the full parameter covered by elements [begin, end) of a rank's part;
// padding yields none.
std::vector<PlacedRegion> regions_of(const ParameterSpec& spec, std::int64_t begin,
                                     std::int64_t end);

// Returns the slices that this rank saves: `saves(parameter)` is true on one of the ranks that hold
// copies. Valid until a reallocation.
std::vector<SourceSlice> saved_slices(const Stage& stage, Optimizer& optimizer,
                                      const std::function<bool(const Parameter&)>& saves);
// Returns everything that this rank owns, as load targets.
std::vector<TargetSlice> loaded_slices(const Stage& stage, Optimizer& optimizer,
                                       const SliceOptions& options);

}  // namespace trireme
