// Makes untrusted text safe to print: removes characters that control a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

inline constexpr std::size_t longest_shown = 100;  // bytes

// Returns valid UTF-8: control characters, characters that change the writing direction and invalid
// bytes become '?'. Text longer than `longest` is cut and ends in "...".
std::string printable(std::string_view text, std::size_t longest = longest_shown);

// Same for a whole message: no length limit; line breaks and tabs are kept.
std::string printable_message(std::string_view text);

}  // namespace trireme
