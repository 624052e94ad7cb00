// Texts of files for messages and tables: without what would steer a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

inline constexpr std::size_t longest_shown = 100;  // bytes

// Valid UTF-8: control characters, those that change the direction of writing, and bytes that are
// no characters become '?'. What is longer than `longest` ends in "...".
std::string printable(std::string_view text, std::size_t longest = longest_shown);

// The same for a whole message: of any length, with its line breaks and tabs.
std::string printable_message(std::string_view text);

}  // namespace trireme
