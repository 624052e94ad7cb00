// Cost of one layer, the embedding and the head on a rank: recorded from a model with few layers
// and the same partitioning.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>

#include "model/layer_kinds.h"
#include "plan/layout_space.h"
#include "plan/timing/costs.h"

namespace trireme {

// Per micro-batch.
struct ModelPiece {
  // Seconds of each pass (forward, backward, weight gradient) separately; a fused backward pass
  // computes both gradients.
  std::array<double, 3> seconds{};
  double host = 0;                                 // to enqueue all passes
  std::int64_t elements = 0, expert_elements = 0;  // of its parameters
  std::int64_t saved = 0;                          // bytes, from forward to backward pass
  bool known = false;

  double all() const { return seconds[0] + seconds[1] + seconds[2]; }
};

struct ModelPieces {
  ModelPiece embedding, head;
  std::map<LayerKind, ModelPiece> layers;
  std::int64_t boundary = 0;  // bytes between two layers
};

// `splits`: separate passes for input and weight gradients. `costs`: null leaves seconds at zero.
// Degrees, recomputation, ZeRO 2 or 3 and the micro-batch are taken from `layout`.
ModelPieces record_pieces(const Config& config, const Layout& layout, bool splits,
                          const Target& target, const CostModel* costs);

}  // namespace trireme
