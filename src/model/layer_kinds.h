// The kinds of layers of a model.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "config/config.h"

namespace trireme {

// Properties that determine the graph of a layer, besides those common to all layers.
struct BlockKind {
  std::int64_t experts = 0;  // 0: a dense MLP
  bool window = true;        // uses model.attention_window; false: full attention
  bool positions = true;     // uses rotary positions, if the model has them
  bool linear = false;       // linear attention instead of attention
  bool attention = true;     // false: an MLP or experts alone
  bool mlp = true;           // false: attention alone
  int added = 0;             // index of the kind, in architectures that a program adds

  auto operator<=>(const BlockKind&) const = default;
};

// All properties in which layer graphs differ: layers of one kind have the same run time and the
// same memory.
struct LayerKind {
  BlockKind block;
  bool in_fp8 = false;

  auto operator<=>(const LayerKind&) const = default;
};
// Returns the kind of each layer of the full model, in order.
std::vector<LayerKind> layer_kinds(const ModelConfig& model, const Fp8Config& fp8);

}  // namespace trireme
