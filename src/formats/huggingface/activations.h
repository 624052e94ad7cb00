// The names of activation functions, ours and those of Hugging Face's config.json.
#pragma once

#include <string_view>

namespace trireme {

struct HuggingFaceActivation {
  const char* ours;
  const char* theirs;
};
// The first of theirs is the one that is written.
inline constexpr HuggingFaceActivation huggingface_activations[] = {
    {"gelu_tanh", "gelu_new"},
    {"gelu_tanh", "gelu_pytorch_tanh"},
    {"gelu_tanh", "gelu_fast"},
    {"gelu_tanh", "gelu_accurate"},
    {"gelu_tanh", "gelu_python_tanh"},
    {"gelu_erf", "gelu"},
    {"gelu_erf", "gelu_python"},
    {"silu", "silu"},
    {"silu", "swish"},
    {"squared_relu", "relu2"},
};

// Ours of one of theirs, or "".
constexpr std::string_view activation_named(std::string_view theirs) {
  for (const auto& activation : huggingface_activations)
    if (theirs == activation.theirs) return activation.ours;
  return "";
}

// The first of theirs for one of ours. Those that the files cannot name get another one: reading
// the file again shows it.
constexpr const char* huggingface_activation(std::string_view ours) {
  for (const auto& activation : huggingface_activations)
    if (ours == activation.ours) return activation.theirs;
  return huggingface_activations[0].theirs;
}

}  // namespace trireme
