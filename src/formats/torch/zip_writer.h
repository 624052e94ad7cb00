// zip archives as PyTorch reads them: entries are stored uncompressed, one after the other, and
// each content begins at a multiple of 64 bytes.
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
  // Creates the file, as PATH.tmp until it is finished. `always_wide` writes all numbers in the
  // fields of 64 bits, as is done for those that need them.
  explicit ZipWriter(const fs::path& path, bool always_wide = false);
  // Into another file, from byte `base` of it on. That file is not finished by this object.
  ZipWriter(NewFile& file, std::uint64_t base) : file_(&file), base_(base) {}
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  // Begins an entry of that many bytes; the one before it must be complete.
  void begin(const std::string& name, std::uint64_t bytes);
  // The next bytes of the entry.
  void write(std::span<const std::byte> bytes);
  void add(const std::string& name, std::string_view content);

  // Writes the directory, makes the file durable, closes and renames it. Without it, no file
  // remains. Returns how many bytes were written.
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
  std::uint64_t at_ = 0;  // of the archive
  std::uint64_t left_ = 0;
};

}  // namespace trireme
