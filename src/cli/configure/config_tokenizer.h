// Tokenizer settings for `trireme config`.
#pragma once

#include <string>

namespace trireme::cli {

// Returns the [data] lines for a tokenizer file; `model` is a preset or a family.
std::string tokenizer_lines(const std::string& file, const std::string& model);

// Returns the tokenizer file that usually comes with a model.
std::string proposed_tokenizer(const std::string& model);

}  // namespace trireme::cli
