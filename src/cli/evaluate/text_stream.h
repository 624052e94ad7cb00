// A text file as a token stream for evaluating a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/documents/text_documents.h"
#include "tokenizer/tokenizer.h"

namespace trireme::cli {

struct TextStream {
  std::vector<std::int32_t> ids;
  std::int64_t bytes = 0;  // of the text
};

// Context before the first document. Models with a start-of-document token (BOS) need none;
// others get the end of a previous document, as in training, so that the first token can be
// scored too.
std::vector<std::int32_t> before_first_document(const Tokenizer& tokenizer);

// Reads concatenated documents as preprocessing writes them, with the end-of-document token between
// them.
TextStream read_text_stream(const std::string& file, DocumentForm form, const Tokenizer& tokenizer);

}  // namespace trireme::cli
