// The names of activation functions, ours and those of Hugging Face's config.json.
#pragma once

namespace trireme {

struct HuggingFaceActivation {
  const char* ours;
  const char* theirs;
};
// The first of theirs is the one that is written.
inline constexpr HuggingFaceActivation huggingface_activations[] = {
    {"gelu_tanh", "gelu_new"}, {"gelu_tanh", "gelu_pytorch_tanh"},
    {"gelu_erf", "gelu"},      {"silu", "silu"},
    {"silu", "swish"},         {"squared_relu", "relu2"},
};

}  // namespace trireme
