// Looks up a configuration choice by its name, for tests that have names in their tables.
#pragma once

#include <string_view>

#include "base/choice.h"

namespace trireme {

struct Named {
  std::string_view name;

  template <Choice T>
  operator T() const {
    return find_choice<T>(name).value();
  }
};

inline Named named(std::string_view name) {
  return {name};
}

}  // namespace trireme
