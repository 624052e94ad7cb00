// Enumeration of the valid layouts of a model, a batch and a number of ranks, for the search.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"

namespace trireme {

// The ranks available to a layout.
struct RankSet {
  int ranks = 1;
  int ranks_per_node = 1;   // tensor parallelism stays within a node
  std::int64_t memory = 0;  // bytes of each
  std::int64_t host = 0;    // bytes of host memory per GPU node; 0: not known
};

// All settings that a search chooses.
struct Layout {
  ParallelConfig parallel;
  std::int64_t micro_batch_size = 1;
};

Config with_layout(Config config, const Layout& layout);
std::int64_t micro_batches_of(const Config& config, const Layout& layout, int ranks);

// Formats "tp 8 pp 4 dp 2, zb1p, ZeRO 1, recompute full, micro-batch 2".
std::string layout_text(const Layout& layout, int ranks);
// Lines for a configuration file; and command line overrides that apply the layout to `config`.
std::string layout_toml(const Layout& layout);
std::vector<std::string> layout_overrides(const Layout& layout, const Config& config);

struct LayoutSpace {
  std::vector<Layout> layouts;
  // Number of combinations of tp, cp and ep, and then of pp and the micro-batch, that are invalid
  // for the model, the device or the batch, and the first message that explains why.
  std::int64_t refused = 0;
  std::string refusal;
  // For combinations that are invalid only because of the batch: the numbers of which the batch
  // would have to be a multiple, smallest first.
  std::vector<std::int64_t> batch_units;
};

// All other settings of `config` are kept; it must be valid with known global batch and
// vocabulary.
LayoutSpace layout_space(const Config& config, const RankSet& set);

}  // namespace trireme
