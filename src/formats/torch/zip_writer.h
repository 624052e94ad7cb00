// Writes zip archives for PyTorch: entries are stored uncompressed and contiguously, with contents
// aligned to 64 bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace trireme {

class ZipWriter {
 public:
  // Creates PATH.tmp, renamed to PATH by finish(). `always_wide` writes all numbers as zip64
  // fields, even if they fit in 32 bits.
  explicit ZipWriter(const fs::path& path, bool always_wide = false);
  // Writes into another file from offset `base` on. This object does not finish that file.
  ZipWriter(NewFile& file, std::uint64_t base) : file_(&file), base_(base) {}
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  // Begins an entry of that many bytes; the previous one must be complete.
  void begin(const std::string& name, std::uint64_t bytes);
  // Appends bytes to the entry.
  void write(std::span<const std::byte> bytes);
  void add(const std::string& name, std::string_view content);

  // Writes the directory, syncs, closes and renames the file. Without this call, no file remains.
  // Returns the number of bytes written.
  std::uint64_t finish();

 private:
  struct Entry {
    std::string name;
    std::uint64_t header = 0, bytes = 0;
    std::uint32_t crc = 0;
  };
  bool is_wide(std::uint64_t number) const;
  void append(std::string_view bytes);
  void end_entry();

  std::optional<NewFile> own_;
  NewFile* file_;
  std::uint64_t base_ = 0;
  bool always_wide_ = false;
  std::vector<Entry> entries_;
  std::uint64_t at_ = 0;  // offset in the archive
  std::uint64_t left_ = 0;
};

}  // namespace trireme
