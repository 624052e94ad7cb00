// Rotary positions in a config.json.
#pragma once

#include "config/config.h"
#include "formats/huggingface/kind.h"

namespace trireme {

// How much of each head a kind turns: all of it, or what partial_rotary_factor says.
enum class RotaryShare : std::uint8_t { whole, given };

// Whether a key holds an object that says anything; transformers takes an empty one for none.
bool has_parameters(const HuggingFaceReader& json, const char* key);

// Reads base and scaling in the spelling of any version of transformers. `base`: where none is
// given; a share that none is given of stays as it is. Of latent attention widths are there
// already.
void read_rope(const HuggingFaceReader& json, ModelConfig& m, double base,
               RotaryShare share = RotaryShare::whole);

// Bases where none is given, and the key of the one of layers with a window (null: none, outside of
// rope_parameters).
struct LayerBases {
  double full, local;
  const char* local_key = nullptr;
};
// The same of models whose layers with a window turn differently. The windows are there already.
void read_rope_by_layer(const HuggingFaceReader& json, ModelConfig& m, const LayerBases& bases);

// The value of rope_scaling.
HuggingFaceJson write_rope_scaling(const ModelConfig& m);
// The same with the kind under the one name that newer classes read, "default" without scaling.
HuggingFaceJson write_full_rope(const ModelConfig& m);
// That of rope_parameters, by type of layer.
HuggingFaceJson write_rope_by_layer(const ModelConfig& m);

}  // namespace trireme
