// Lines of vocabularies and merges as editors leave them.
#pragma once

#include <string_view>

namespace trireme {

// The content without the byte order mark that editors of Windows put before it.
std::string_view without_byte_order_mark(std::string_view content);

// Takes the next line off `content`, without its end (also \r\n).
std::string_view take_vocabulary_line(std::string_view& content);

// A line without the white space (of Unicode) at its end; as it is if there is nothing else in it.
std::string_view trimmed_end(std::string_view line);

}  // namespace trireme
