// Picks a layout for a model, a batch and a number of ranks: the one that cuts the model least
// among those that fit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/layout_space.h"

namespace trireme {

struct LayoutChoice {
  Config config;            // the given one with the layout in it
  std::int64_t needed = 0;  // bytes of the rank that needs most
  // Why the model is split and recomputed as it is, in sentences: that a batch does not divide
  // evenly among all ranks, and what the simplest layout would need. "": the model is not split.
  std::string reason;
};

// Chooses parallel.tp, pp, sequence_parallel, zero and recompute, and the largest
// train.micro_batch_size of 1, 2, 4 and 8 with which it still fits; all else of `config`, which is
// valid and knows its vocabulary and its global batch, stays. Layouts are tried from those that cut
// a model into the fewest parts on, and whole layers are recomputed only where nothing else fits.
// Nothing where no layout fits. Fails (exit code 2), with the reason against the simplest, where
// none suits the model and the batch, whatever the memory.
std::optional<LayoutChoice> choose_layout(const Config& config, const RankSet& set);

// Fails (exit code 2), with the reason, where no layout suits the model and the batch, whatever the
// memory; `keep`: where the one that `config` has does not.
void refuse_without_layout(const Config& config, const RankSet& set, bool keep);

// The layout that `config` has, with `wider` for the largest micro-batch of 1, 2, 4 and 8 that
// fits. What does not fit is returned all the same. Fails (exit code 2) where the layout does not
// suit that many ranks.
LayoutChoice keep_layout(const Config& config, const RankSet& set, bool wider);

}  // namespace trireme
