// Encodes numbers in little-endian byte order.
#pragma once

#include <string>

namespace trireme {

template <class T>
std::string little_endian(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace trireme
