// The tokenizer that a run's configuration names.
#pragma once

#include <memory>

#include "config/config.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// From data.tokenizer, which must name one, and its files. The null tokenizer has the ids below
// model.vocab_size, of which the last ends a document; throws bad_input where that is not set.
std::unique_ptr<Tokenizer> make_tokenizer(const Config& config);

}  // namespace trireme
