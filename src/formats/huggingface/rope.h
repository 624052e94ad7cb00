// RoPE parameters in config.json.
#pragma once

#include "config/config.h"
#include "formats/huggingface/kind.h"

namespace trireme {

// Rotary part of each head: all of it, or partial_rotary_factor.
enum class RotaryShare : std::uint8_t { whole, given };

// Whether a key holds a non-empty object; transformers treats an empty one as absent.
bool has_parameters(const HuggingFaceReader& json, const char* key);

// Reads base and scaling in any version's spelling. `base` is the default; a rotary
// fraction that is not given stays unchanged. Widths of latent attention must be set
// before.
void read_rope(const HuggingFaceReader& json, ModelConfig& m, double base,
               RotaryShare share = RotaryShare::whole);

// Default bases, and the key of the base for sliding-window layers (null: none outside of
// rope_parameters).
struct LayerBases {
  double full, local;
  const char* local_key = nullptr;
};
// Same, for models with another RoPE in sliding-window layers. Windows must be set before.
void read_rope_by_layer(const HuggingFaceReader& json, ModelConfig& m, const LayerBases& bases);

// The value of rope_scaling.
HuggingFaceJson write_rope_scaling(const ModelConfig& m);
// Same, with the type key of newer classes; "default" without scaling.
HuggingFaceJson write_full_rope(const ModelConfig& m);
// The value of rope_parameters, by layer type.
HuggingFaceJson write_rope_by_layer(const ModelConfig& m);

}  // namespace trireme
