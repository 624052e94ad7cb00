// A text file as the stream of tokens that a model is evaluated on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/text_documents.h"
#include "tokenizer/tokenizer.h"

namespace trireme::cli {

struct TextStream {
  std::vector<std::int32_t> ids;
  std::int64_t bytes = 0;  // of the text
};

// Context of the first document. A model whose documents open with a token of their own (BOS) needs
// none; any other gets the end of an earlier document, as in training, so that the first token can
// be scored too.
std::vector<std::int32_t> before_first_document(const Tokenizer& tokenizer);

// Documents one after the other as preprocessing writes them, with the token that ends documents
// between them.
TextStream read_text_stream(const std::string& file, DocumentForm form, const Tokenizer& tokenizer);

}  // namespace trireme::cli
