// The kinds of norms and activations: the words that graphs and kernels share.
#pragma once

#include <cstdint>

namespace trireme {

enum class NormKind : std::uint8_t { layer_norm, rms_norm };
enum class ActivationKind : std::uint8_t { gelu_tanh, gelu_erf, silu, squared_relu, tanh, swiglu };

}  // namespace trireme
