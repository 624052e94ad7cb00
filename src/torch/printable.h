// Texts of files for messages: without what would steer a terminal.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

inline std::string printable(std::string_view text) {
  constexpr std::size_t longest = 100;
  std::string out(text.substr(0, longest));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text.size() > longest ? out + "..." : out;
}

}  // namespace trireme
