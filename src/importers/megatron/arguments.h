// Converts the arguments stored in Megatron checkpoints (argparse.Namespace) to a model, and
// back.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"
#include "formats/megatron/writer.h"

namespace trireme::megatron {

// Looks up an argument formatted as in Python ("True", "4096", "rope"); nullopt if absent or None.
using ArgumentLookup = std::function<std::optional<std::string>(std::string_view name)>;

// Whether a format's reader supports expert tensors.
enum class Experts : std::uint8_t { refused, read };

// Model described by the arguments, except its vocabulary. `where` names the checkpoint in
// messages. Refused (exit code 2): unsupported or missing arguments.
ModelConfig model_of_arguments(const std::string& where, bool bert, const ArgumentLookup& argument,
                               Experts experts = Experts::refused);

// Whether an argument determines the model or is checked and refused.
bool knows_argument(std::string_view name);

// Vocabulary rows without padding: an argument that our writer adds to Megatron's
// own.
inline constexpr const char* words_argument = "true_vocab_size";

// Arguments of a run with the model of `config`. Refused (exit code 2): a model that they cannot
// express, with the key: they are read back and compared.
TorchDict arguments_of(const Config& config, const MegatronLayout& layout);

}  // namespace trireme::megatron
