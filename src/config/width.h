// Width of a model relative to the one that its hyperparameters were tuned on.
#pragma once

#include "config/config.h"

namespace trireme {

// hidden_size over model.mup_base_hidden_size; 1 without maximal-update parametrization.
inline double width_ratio(const ModelConfig& model) {
  if (model.mup_base_hidden_size == 0) return 1;
  return static_cast<double>(model.hidden_size) / static_cast<double>(model.mup_base_hidden_size);
}

}  // namespace trireme
