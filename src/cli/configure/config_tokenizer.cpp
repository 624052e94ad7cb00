// Derives tokenizer keys from a file name.
#include "cli/configure/config_tokenizer.h"

#include <fmt/format.h>

#include "config/fields.h"

namespace trireme::cli {

// Derives the tokenizer type from the file name; Llama 3's tiktoken model has the same name as
// other models' SentencePiece files.
std::string tokenizer_lines(const std::string& file, const std::string& model) {
  const std::string name = toml_string(file);
  const auto ends = [&](std::string_view end) { return file.ends_with(end); };
  if (ends("vocab.json")) {
    const std::string folder = file.substr(0, file.size() - std::string_view("vocab.json").size());
    return fmt::format("tokenizer = \"gpt2\"\nvocab_file = {}\nmerge_file = {}\n", name,
                       toml_string(folder + "merges.txt"));
  }
  if (ends(".txt")) return fmt::format("tokenizer = \"bert\"\nvocab_file = {}\n", name);
  const bool tiktoken = ends(".tiktoken") || (ends(".model") && model.starts_with("llama3"));
  const char* const kind = ends("tokenizer.json") ? "hf" : tiktoken ? "tiktoken" : "sentencepiece";
  return fmt::format("tokenizer = \"{}\"\ntokenizer_model = {}\n", kind, name);
}

std::string proposed_tokenizer(const std::string& model) {
  if (model.starts_with("bert")) return "vocab.txt";
  if (model.starts_with("llama3")) return "tokenizer.json";
  if (model.starts_with("llama")) return "tokenizer.model";
  return "vocab.json";
}

}  // namespace trireme::cli
