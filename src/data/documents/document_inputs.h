// The files of a corpus: which there are, and what they hold by their names and first bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Form of a document in a file.
enum class DocumentForm {
  json_line,   // a line that is a JSON object
  line,        // a line of text
  paragraphs,  // text up to the next blank line
  file,        // the whole file
  row,         // a row of a file of columns, see arrow_file.h
};

// Something in a folder that is not read.
struct PassedOver {
  std::string path;
  std::string why;  // "hidden"; the same words for what is alike
};

struct Inputs {
  std::vector<std::string> files;
  std::vector<PassedOver> passed_over;
  std::vector<std::string> doubts;  // what was taken, but may not be meant; a sentence each
};

// Expands patterns (*, ?, [...]) to sorted file names, in the order of the patterns. A folder
// expands to the files in it and below it that hold documents by their names or first bytes; a
// dataset saved by Hugging Face's library, to those that its state.json lists. Everything else is
// skipped with a reason or rejected. Throws bad_input for a pattern or a folder without any.
Inputs expand_inputs(const std::vector<std::string>& patterns);

// The form of a file's documents. Files of columns are recognized by their first bytes. A file
// ".txt" (compressed or not) holds text in the form `text`, unless it begins like JSON lines; any
// other file holds JSON lines. With `all_text` every file holds text. Throws bad_input for a file
// that begins like something else: JSON of another layout, a web page, a format that is not read.
DocumentForm form_of(const std::string& file, DocumentForm text, bool all_text);

// Whether a file of this size is a single document so large that several were likely meant.
constexpr bool is_large_document(DocumentForm form, std::uint64_t bytes) {
  return form == DocumentForm::file && bytes > 1 << 20;
}

// "passed over 2 files of a folder (hidden): 'a/.b', 'a/.c'", a line for each reason.
std::vector<std::string> lines_about(const std::vector<PassedOver>& passed_over);

}  // namespace trireme
