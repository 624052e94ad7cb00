// Splits plain text into documents, for both preprocessing and evaluation.
#pragma once

#include <functional>
#include <string_view>

#include "data/documents/document_chunks.h"

namespace trireme {

// Whether there is nothing but white space in a line.
bool is_blank(std::string_view line);

// The next line of `text`, without its end, which is taken off `text`.
std::string_view take_line(std::string_view& text);

// Calls `body` with every document of `text`: lines or paragraphs that are not blank, or the whole
// text. Not for JSON lines.
void for_each_document(std::string_view text, DocumentForm form,
                       const std::function<void(std::string_view)>& body);

}  // namespace trireme
