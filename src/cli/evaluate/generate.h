// `trireme generate` as a function for other commands.
#pragma once

#include <string>

#include "generate/generator.h"

namespace trireme::cli {

// Prints the prompt and its continuation by the model of a run or of a checkpoint.
void print_continuation(const std::string& model, const std::string& prompt,
                        const GenerateOptions& options);

}  // namespace trireme::cli
