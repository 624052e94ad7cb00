// Rotary positions in a config.json.
#pragma once

#include "config/config.h"
#include "formats/huggingface/kind.h"

namespace trireme {

// Reads base and scaling in the spelling of any version of transformers. `base`: where none is
// given. Of latent attention widths are there already.
void read_rope(const HuggingFaceReader& json, ModelConfig& m, double base);

// The value of rope_scaling.
HuggingFaceJson write_rope_scaling(const ModelConfig& m);

}  // namespace trireme
