// The subset of protobuf's wire format needed for writing our files. Source: protobuf.dev,
// "Encoding" (format only).
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::protobuf {

static_assert(std::endian::native == std::endian::little, "numbers are little endian");

enum class Wire : std::uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// Appends the bytes of a number in native byte order.
template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

inline void put_key(std::string& out, std::uint32_t field, Wire wire) {
  put_varint(out, field << 3 | static_cast<std::uint32_t>(wire));
}

// Writes an int32 or int64 field.
inline void put_integer(std::string& out, std::uint32_t field, std::int64_t value) {
  put_key(out, field, Wire::varint);
  put_varint(out, static_cast<std::uint64_t>(value));
}

// Writes a string or an embedded message.
inline void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_key(out, field, Wire::bytes);
  put_varint(out, bytes.size());
  out += bytes;
}

}  // namespace trireme::protobuf
