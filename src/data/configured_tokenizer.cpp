// From the keys of [data] to a tokenizer.
#include "data/configured_tokenizer.h"

#include "base/error.h"

namespace trireme {

std::unique_ptr<Tokenizer> make_tokenizer(const Config& config) {
  const DataConfig& data = config.data;
  const bool null = data.tokenizer == "null";
  if (null && config.model.vocab_size < 2) {
    fail_input(
        "data.tokenizer = \"null\" has no files that say how many ids there are: set "
        "model.vocab_size to their number and one more, for the id that ends documents");
  }
  return make_tokenizer({.type = data.tokenizer,
                         .vocab_file = data.vocab_file,
                         .merge_file = data.merge_file,
                         .model_file = data.tokenizer_model,
                         .vocab_size = null ? config.model.vocab_size - 1 : 0});
}

}  // namespace trireme
