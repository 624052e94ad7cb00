// zip archives as PyTorch writes them: a strict reader. All entries are stored uncompressed, lie
// one after the other from the first byte on, and are listed at the end in the central directory.
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
  std::uint64_t begin = 0;  // of its content
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;  // of its content, not checked by the parser
};

// Whether the bytes begin as an archive does.
bool is_zip_archive(std::span<const std::byte> file);

// The entries of an archive, in the order of their names. `name` is the file's name for messages.
// Refused (exit code 2), so that no two readers can see different things in one file: compressed or
// encrypted entries; names that are empty, absolute, lead upwards or occur twice; headers that
// contradict the central directory; entries that overlap, leave a hole or reach beyond the archive;
// bytes before the first entry or after the directory; archives of several parts. Checksums are the
// business of whoever reads the contents (zip_crc).
std::vector<ZipEntry> parse_zip(std::span<const std::byte> file, const std::string& name);

// CRC-32 of further bytes; begin with crc = 0.
std::uint32_t zip_crc(std::uint32_t crc, std::span<const std::byte> bytes);

}  // namespace trireme
