// Lines, and paragraphs between blank lines.
#include "data/documents/text_documents.h"

namespace trireme {
namespace {

// The next paragraph of `text`, which is taken off it; empty at the end.
std::string_view take_paragraph(std::string_view& text) {
  const char* begin = nullptr;
  const char* end = nullptr;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (is_blank(line)) {
      if (begin) break;
      continue;
    }
    if (!begin) begin = line.data();
    end = line.data() + line.size();
  }
  return begin ? std::string_view(begin, static_cast<std::size_t>(end - begin))
               : std::string_view();
}

}  // namespace

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == line.npos;
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

void for_each_document(std::string_view text, DocumentForm form,
                       const std::function<void(std::string_view)>& body) {
  if (form == DocumentForm::file) return body(text);
  while (!text.empty()) {
    const std::string_view document =
        form == DocumentForm::line ? take_line(text) : take_paragraph(text);
    if (!is_blank(document)) body(document);
  }
}

}  // namespace trireme
