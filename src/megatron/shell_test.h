// Conditions: [ ... ], [[ ... ]] and (( ... )).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "megatron/shell_expand.h"

namespace trireme::megatron {

// Whether the condition between the brackets holds; nothing where only running would tell (files,
// regular expressions, output of commands). `patterns`: "==" matches patterns, as in [[ ]].
std::optional<bool> shell_test(const std::vector<std::string>& words, bool patterns,
                               ShellState& state);

}  // namespace trireme::megatron
