// Kinds of layers of a model.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "config/config.h"

namespace trireme {

// Everything that the graph of a layer follows from, next to what all layers have in common.
struct BlockKind {
  std::int64_t experts = 0;  // 0: a dense MLP
  bool window = true;        // attends as model.attention_window says; false: to all positions
  bool positions = true;     // that turn its queries and keys, where the model has such
  int added = 0;             // number of the kind, in architectures that a program adds

  auto operator<=>(const BlockKind&) const = default;
};

// Everything in which the graphs of layers differ: layers of one kind take equally long and keep
// equally much.
struct LayerKind {
  BlockKind block;
  bool in_fp8 = false;

  auto operator<=>(const LayerKind&) const = default;
};
// The kind of each layer of the whole model, in order.
std::vector<LayerKind> layer_kinds(const ModelConfig& model, const Fp8Config& fp8);

}  // namespace trireme
