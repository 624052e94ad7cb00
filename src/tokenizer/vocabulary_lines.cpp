// Line ends, marks and white space.
#include "tokenizer/vocabulary_lines.h"

#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace trireme {

std::string_view without_byte_order_mark(std::string_view content) {
  constexpr std::string_view mark = "\xef\xbb\xbf";
  if (content.starts_with(mark)) content.remove_prefix(mark.size());
  return content;
}

std::string_view take_vocabulary_line(std::string_view& content) {
  const std::size_t stop = content.find('\n');
  std::string_view line = content.substr(0, stop);
  content.remove_prefix(stop == content.npos ? content.size() : stop + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view trimmed_end(std::string_view line) {
  std::string_view rest = line;
  while (!rest.empty()) {
    std::size_t last = rest.size() - 1;
    while (last > 0 && (rest[last] & 0xC0) == 0x80) --last;
    const DecodedChar c = decode_utf8(rest.data() + last, rest.data() + rest.size());
    if (!c.valid || last + c.length != rest.size() || !is_white_space(c.value)) return rest;
    rest.remove_suffix(c.length);
  }
  return line;
}

}  // namespace trireme
