// Files of bytes, plain or compressed (gzip, xz, zstd), read in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace trireme {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Writes up to `count` bytes of content to `to`; 0 means the end. Throws bad_input for a file
  // whose compressed form is damaged or cut off.
  virtual std::size_t read(char* to, std::size_t count) = 0;
  // Number of bytes of the file itself read so far.
  virtual std::uint64_t consumed() const = 0;
};

// Opens a file. What it is compressed with follows from its first bytes, not from its name; several
// compressed streams one after the other are read as one, as the usual tools do.
std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path);

// The part of the bytes [begin, end) that the file has, uninterpreted.
std::unique_ptr<ByteSource> open_byte_range(const std::filesystem::path& path, std::uint64_t begin,
                                            std::uint64_t end);

// Whether a file begins like one that open_bytes() decompresses.
bool is_compressed(const std::filesystem::path& path);

}  // namespace trireme
