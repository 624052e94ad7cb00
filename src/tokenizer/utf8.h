// UTF-8: decoding by the WHATWG rule (each maximal ill-formed subpart is one U+FFFD) and encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace trireme {

inline constexpr char32_t kReplacement = 0xFFFD;

struct DecodedChar {
  char32_t value;        // kReplacement where the bytes are ill-formed
  std::uint32_t length;  // bytes read, at least 1
  bool valid;
};

// Decodes the first character of [p, end), which is not empty.
inline DecodedChar decode_utf8(const char* p, const char* end) {
  const auto byte = [p](std::size_t i) { return static_cast<unsigned char>(p[i]); };
  const std::size_t available = static_cast<std::size_t>(end - p);
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  // The second byte's range depends on the lead (Unicode 14, table 3-7); later ones are 80..BF.
  unsigned low = 0x80, high = 0xBF, count = 0;
  char32_t value = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    count = 2, value = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    count = 3, value = lead & 0x0F;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    count = 4, value = lead & 0x07;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  if (count == 0) return {kReplacement, 1, false};
  for (std::uint32_t i = 1; i < count; ++i) {
    if (i >= available || byte(i) < low || byte(i) > high) return {kReplacement, i, false};
    value = value << 6 | (byte(i) & 0x3F);
    low = 0x80, high = 0xBF;
  }
  return {value, count, true};
}

// The first character of valid UTF-8 that is not empty.
inline DecodedChar decode_valid_utf8(const char* p) {
  const auto byte = [p](std::size_t i) { return static_cast<unsigned char>(p[i]); };
  const auto rest = [&](std::size_t i) { return static_cast<char32_t>(byte(i) & 0x3F); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | rest(1), 2, true};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | rest(1) << 6 | rest(2), 3, true};
  return {(lead & 0x07) << 18 | rest(1) << 12 | rest(2) << 6 | rest(3), 4, true};
}

// How many of the first bytes of [p, end) are ASCII, in steps of eight.
inline std::size_t ascii_prefix(const char* p, const char* end) {
  std::size_t count = 0;
  for (; static_cast<std::size_t>(end - p) >= count + 8; count += 8) {
    std::uint64_t word;
    std::memcpy(&word, p + count, 8);
    if ((word & 0x8080808080808080) != 0) break;
  }
  return count;
}

// Appends one character; `value` is a Unicode scalar value.
void append_utf8(char32_t value, std::string& out);

bool is_valid_utf8(std::string_view text);

// The text with every ill-formed subpart replaced by U+FFFD.
std::string to_valid_utf8(std::string_view text);

}  // namespace trireme
