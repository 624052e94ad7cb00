// The tokenizer of a configuration by questions.
#pragma once

#include <string>

namespace trireme::cli {

// The lines of [data] for a tokenizer's file; `model` is a preset or a family.
std::string tokenizer_lines(const std::string& file, const std::string& model);

// The file that a model usually comes with.
std::string proposed_tokenizer(const std::string& model);

}  // namespace trireme::cli
