// Detects the form of a file by its first bytes.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// The first bytes of a file's content, decompressed: 4 KiB, or all of it.
std::string first_content(const std::string& file);

enum class ContentLook {
  json_lines,  // an object whose first key or end is in the same line
  json,        // JSON of another layout: an object over several lines, a list of objects
  wiki_text,   // <doc id="..."> of WikiExtractor
  other,
};
ContentLook look_of(std::string_view first_content);

// Whether bytes that should be text are not: there are NULs, control characters are many, or they
// are some and other bytes are no UTF-8.
bool looks_binary(std::string_view first_content);

// Whether text is in an encoding that has bytes of its own for letters beyond ASCII, as Latin-1,
// Windows' code pages, GB18030 and Shift-JIS: most of what is not ASCII is no UTF-8.
bool looks_like_other_encoding(std::string_view first_content);

}  // namespace trireme
