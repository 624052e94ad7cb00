// Numbers with their noun in what commands print.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace trireme {

// "1 token", "2 tokens".
template <class Number>
std::string counted(Number count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace trireme
