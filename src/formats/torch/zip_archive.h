// Strict reader for zip archives as written by PyTorch. All entries are stored uncompressed,
// contiguous from the first byte on, and listed in the central directory at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// One entry. `begin` counts from the start of the archive.
struct ZipEntry {
  std::string name;
  std::uint64_t begin = 0;  // offset of its content
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;  // CRC-32 of its content, not verified by the parser
};

// Whether the bytes begin like a zip archive.
bool is_zip_archive(std::span<const std::byte> file);

// Entries of an archive, sorted by name. `name` is the file's name for messages. Refused (exit code
// 2), so that no two readers can see different contents: compressed or encrypted entries; names
// that are empty, absolute, contain .. or are duplicates; headers that contradict the central
// directory; entries that overlap, leave gaps or exceed the archive; bytes before the first entry
// or after the directory; multi-part archives. Checksums must be verified by the reader of the
// contents (zip_crc).
std::vector<ZipEntry> parse_zip(std::span<const std::byte> file, const std::string& name);

// Updates a CRC-32 with further bytes; start with crc = 0.
std::uint32_t zip_crc(std::uint32_t crc, std::span<const std::byte> bytes);

}  // namespace trireme
