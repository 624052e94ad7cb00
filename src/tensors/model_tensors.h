// Names and shapes of our models' tensors, for formats that store them alike.
#pragma once

#include <vector>

#include "config/config.h"
#include "tensors/mapping.h"

namespace trireme {

std::vector<NamedTensor> model_tensors(const ModelConfig& model);

}  // namespace trireme
