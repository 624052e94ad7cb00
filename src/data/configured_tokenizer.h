// Creates the configured tokenizer, and copies its files to the run's folder.
#pragma once

#include <memory>

#include "base/file.h"
#include "config/config.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// From data.tokenizer, which must name one, and its files. The null tokenizer has the ids below
// model.vocab_size, of which the last ends a document; throws bad_input where that is not set.
std::unique_ptr<Tokenizer> make_tokenizer(const Config& config);

// Copies the files that data.vocab_file, data.merge_file and data.tokenizer_model name to
// RUN/tokenizer, so that a run's folder can be moved and used from anywhere. An equal copy is left
// untouched.
void keep_tokenizer(const Config& config, const fs::path& run);

// Points the paths of `config` that are still as `saved` has them, the configuration that the run's
// checkpoint carries, at the copies in `run`. A run without copies: relative paths also count from
// the folder in which the run was started, where `run` still lies in it. Throws bad_input for files
// that are nowhere, saying how to name others.
void locate_tokenizer(Config& config, const Config& saved, const fs::path& run);

}  // namespace trireme
