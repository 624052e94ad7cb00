// The name of a table's entry as a template argument: for tables whose entries know their names.
#pragma once

#include <cstddef>

namespace trireme {

template <std::size_t n>
struct EntryName {
  constexpr EntryName(const char (&text)[n]) {  // NOLINT: a literal is a name
    for (std::size_t i = 0; i < n; ++i) characters[i] = text[i];
  }
  char characters[n];
};

}  // namespace trireme
