// The flags that choose a tokenizer.
#include "cli/tokenizer_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace trireme::cli {

void add_tokenizer_flags(CLI::App& command, TokenizerConfig& config) {
  const char* group = "Tokenizer";
  command
      .add_option("--tokenizer-type", config.type,
                  fmt::format("One of {}", fmt::join(tokenizer_type_names(), ", ")))
      ->required()
      ->group(group);
  command
      .add_option("--vocab-file", config.vocab_file,
                  "Vocabulary: vocab.json (gpt2) or vocab.txt (bert)")
      ->group(group);
  command.add_option("--merge-file", config.merge_file, "Merges: merges.txt (gpt2)")->group(group);
  command
      .add_option("--tokenizer-model,--tokenizer-name-or-path", config.model_file,
                  "tiktoken file (tiktoken), tokenizer.json or its folder (hf), .model "
                  "(sentencepiece), folder with vocab.json and merges.txt (gpt2)")
      ->group(group);
  command
      .add_option("--tokenizer-pattern", config.pattern,
                  "Kind of tiktoken file, if it cannot be detected from the ranks: gpt2, "
                  "cl100k_base, o200k_base, llama3, llama3.1, qwen, qwen2 or kimi")
      ->group(group);
  command
      .add_option("--vocab-size", config.vocab_size,
                  "Number of ids without the end-of-document token (null)")
      ->group(group);
  command
      .add_flag("!--plain-special-text", config.special_text,
                "Encode special tokens in the text like any other text")
      ->group(group);
}

}  // namespace trireme::cli
