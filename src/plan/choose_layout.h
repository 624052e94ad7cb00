// Chooses a layout for a model, a batch and a number of ranks: the one that splits the model least
// among those that fit into memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/layout_space.h"

namespace trireme {

struct LayoutChoice {
  Config config;            // the given one with the layout in it
  std::int64_t needed = 0;  // bytes of the rank that needs most
  // Why the model is split and recomputed as it is, in sentences: how the batch fails to divide
  // over all ranks, and what the simplest layout would need. "": the model is not split.
  std::string reason;
};

// Chooses parallel.tp, pp, sequence_parallel, zero and recompute, and the largest
// train.micro_batch_size of 1, 2, 4 and 8 that still fits; all other settings of `config`, which
// must be valid with known vocabulary and global batch, stay. Layouts are tried in ascending order
// of the number of model parts, and full recomputation is used only as a last resort. Empty if no
// layout fits. Fails (exit code 2), with the reason for the simplest layout, if none is valid for
// the model and the batch regardless of memory.
std::optional<LayoutChoice> choose_layout(const Config& config, const RankSet& set);

// Fails (exit code 2), with the reason, if no layout is valid for the model and the batch,
// regardless of memory; `keep`: if the layout of `config` is not valid.
void refuse_without_layout(const Config& config, const RankSet& set, bool keep);

// Returns the layout of `config`; with `wider`, with the largest micro-batch of 1, 2, 4 and 8 that
// fits. A layout that does not fit is returned anyway. Fails (exit code 2) if the layout is not
// valid for that many ranks.
LayoutChoice keep_layout(const Config& config, const RankSet& set, bool wider);

}  // namespace trireme
