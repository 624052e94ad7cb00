// Hexadecimal encoding of opaque library algorithms, for records.
#pragma once

#include <cstddef>
#include <string>

namespace trireme::gpu {

inline std::string bytes_as_text(const void* data, std::size_t size) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * size);
  for (std::size_t i = 0; i < size; ++i) {
    const unsigned byte = static_cast<const unsigned char*>(data)[i];
    text += {digits[byte / 16], digits[byte % 16]};
  }
  return text;
}

// Returns false if the text does not encode `size` bytes.
inline bool text_as_bytes(const std::string& text, void* data, std::size_t size) {
  if (text.size() != 2 * size) return false;
  const std::string digits = "0123456789abcdef";
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t high = digits.find(text[2 * i]), low = digits.find(text[2 * i + 1]);
    if (high == std::string::npos || low == std::string::npos) return false;
    static_cast<unsigned char*>(data)[i] = static_cast<unsigned char>(16 * high + low);
  }
  return true;
}

}  // namespace trireme::gpu
