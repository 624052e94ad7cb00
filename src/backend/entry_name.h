// Names for table entries that know their kernel: the name of an entry as a template argument, and
// the names of the products of linear layers.
#pragma once

#include <cstddef>

#include "backend/kernels.h"

namespace trireme {

template <std::size_t n>
struct EntryName {
  constexpr EntryName(const char (&text)[n]) {  // NOLINT: a literal is a name
    for (std::size_t i = 0; i < n; ++i) characters[i] = text[i];
  }
  char characters[n];
};

constexpr const char* name_of(Product product) {
  return product == Product::forward      ? "product"
         : product == Product::input_grad ? "product of the input gradient"
                                          : "product of the weight gradient";
}

constexpr const char* name_of_grouped(Product product) {
  return product == Product::forward      ? "grouped product"
         : product == Product::input_grad ? "grouped product of the input gradient"
                                          : "grouped product of the weight gradient";
}

}  // namespace trireme
