// Maps our tensors to those of Megatron's models, which have ours in other pieces in a few places.
#pragma once

#include "tensors/mapping.h"

namespace trireme {

struct ModelConfig;

// Their tensors, joined over all ranks, under names like ours: the biases of experts of their two
// linear layers ("layers.3.mlp.experts.up.bias", "layers.3.mlp.experts.down.bias"), and the two
// projections of a module of multi-token prediction side by side ("mtp.0.projection.weight").
TensorMapping megatron_mapping(const ModelConfig& model);

}  // namespace trireme
