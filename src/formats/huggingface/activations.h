// Names of activation functions in Trireme and in Hugging Face's config.json.
#pragma once

#include <optional>
#include <string_view>

#include "config/choices.h"

namespace trireme {

struct HuggingFaceActivation {
  MlpActivation ours;
  const char* theirs;
};
// The first name of an activation is the one written.
inline constexpr HuggingFaceActivation huggingface_activations[] = {
    {MlpActivation::gelu_tanh, "gelu_new"},
    {MlpActivation::gelu_tanh, "gelu_pytorch_tanh"},
    {MlpActivation::gelu_tanh, "gelu_fast"},
    {MlpActivation::gelu_tanh, "gelu_accurate"},
    {MlpActivation::gelu_tanh, "gelu_python_tanh"},
    {MlpActivation::gelu_erf, "gelu"},
    {MlpActivation::gelu_erf, "gelu_python"},
    {MlpActivation::silu, "silu"},
    {MlpActivation::silu, "swish"},
    {MlpActivation::squared_relu, "relu2"},
};

// Our activation for a Hugging Face name.
constexpr std::optional<MlpActivation> activation_named(std::string_view theirs) {
  for (const auto& activation : huggingface_activations)
    if (theirs == activation.theirs) return activation.ours;
  return std::nullopt;
}

// The first Hugging Face name of an activation. Activations that cannot be expressed get another
// name: the writer's readback detects the difference.
constexpr const char* huggingface_activation(MlpActivation ours) {
  for (const auto& activation : huggingface_activations)
    if (ours == activation.ours) return activation.theirs;
  return huggingface_activations[0].theirs;
}

}  // namespace trireme
