// Numbers as the bytes that files hold, the lowest first.
#pragma once

#include <string>

namespace trireme {

template <class T>
std::string little_endian(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace trireme
