// The tensors of our models: names and shapes, for formats that store them alike.
#pragma once

#include <vector>

#include "config/config.h"
#include "tensors/mapping.h"

namespace trireme {

std::vector<NamedTensor> model_tensors(const ModelConfig& model);

// A mapping for a format whose tensors, once joined, are ours under the same names.
TensorMapping same_tensors(const ModelConfig& model);

}  // namespace trireme
