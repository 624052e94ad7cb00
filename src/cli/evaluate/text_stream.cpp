// Reads the full file, and replaces invalid UTF-8 as preprocessing does.
#include "cli/evaluate/text_stream.h"

#include "base/file.h"
#include "base/foreign_bytes.h"
#include "tokenizer/utf8.h"

namespace trireme::cli {

std::vector<std::int32_t> before_first_document(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> opening;
  tokenizer.encode_prompt("", opening);
  if (!opening.empty() || tokenizer.eod_id() < 0) return {};
  return {tokenizer.eod_id()};
}

TextStream read_text_stream(const std::string& file, DocumentForm form,
                            const Tokenizer& tokenizer) {
  const std::string bytes = read_file(file);
  refuse_unless_text(file, bytes);
  TextStream stream;
  stream.bytes = static_cast<std::int64_t>(bytes.size());
  stream.ids = before_first_document(tokenizer);
  const std::string text = is_valid_utf8(bytes) ? bytes : to_valid_utf8(bytes);
  for_each_document(text, form, [&](std::string_view document) {
    tokenizer.encode_document(document, stream.ids);
    if (tokenizer.eod_id() >= 0 && form != DocumentForm::file)
      stream.ids.push_back(tokenizer.eod_id());
  });
  return stream;
}

}  // namespace trireme::cli
