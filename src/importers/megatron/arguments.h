// The arguments that Megatron's checkpoints carry (argparse.Namespace), as a model of ours and
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

// An argument as Python shows it ("True", "4096", "rope"); nothing where it is absent or None.
using ArgumentLookup = std::function<std::optional<std::string>(std::string_view name)>;

// Whether a format's reader finds the tensors of experts.
enum class Experts : std::uint8_t { refused, read };

// The model that they say, its vocabulary apart. `where` stands for the checkpoint in messages.
// Refused (exit code 2): arguments that our models cannot compute, or that are missing.
ModelConfig model_of_arguments(const std::string& where, bool bert, const ArgumentLookup& argument,
                               Experts experts = Experts::refused);

// Whether an argument is one of those that decide it, or that are refused.
bool knows_argument(std::string_view name);

// How many rows of the embedding are words, without those that pad it: an argument that our writer
// adds to Megatron's own.
inline constexpr const char* words_argument = "true_vocab_size";

// The arguments of a run that has the model of `config`. Refused (exit code 2):
// a model that they do not say, naming the key: they are read back and compared.
TorchDict arguments_of(const Config& config, const MegatronLayout& layout);

}  // namespace trireme::megatron
