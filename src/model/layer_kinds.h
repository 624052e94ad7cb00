// Kinds of layers of a model.
#pragma once

#include <compare>
#include <vector>

#include "config/config.h"

namespace trireme {

// Everything in which the graphs of layers differ: layers of one kind take equally long and keep
// equally much.
struct LayerKind {
  int block = 0;  // as Builder::block_kind() numbers them
  bool in_fp8 = false;

  auto operator<=>(const LayerKind&) const = default;
};
// The kind of each layer of the whole model, in order.
std::vector<LayerKind> layer_kinds(const ModelConfig& model, const Fp8Config& fp8);

}  // namespace trireme
