// Flags that select a tokenizer, with Megatron's names; shared by all commands that need one.
#pragma once

#include <CLI/CLI.hpp>

#include "tokenizer/tokenizer.h"

namespace trireme::cli {

// Adds --tokenizer-type, --vocab-file, --merge-file, --tokenizer-model, --vocab-size and
// --plain-special-text to `command`; they are stored in `config`, which must outlive the parse.
void add_tokenizer_flags(CLI::App& command, TokenizerConfig& config);

}  // namespace trireme::cli
