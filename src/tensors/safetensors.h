// Strict reader for safetensors files: a little-endian u64 (header length), a JSON header with each
// tensor's name, element type, shape and byte range, then the tensors' bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"

namespace trireme {

// One tensor of a file. `begin` and `end` are byte offsets from the start of the file.
struct SafetensorsEntry {
  std::string name;
  std::string_view type;            // as in the file: "F32", "BF16", "F8_E4M3", ...
  std::optional<DType> dtype;       // empty for types that Trireme does not support
  std::vector<std::int64_t> shape;  // row-major; empty for a scalar
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;        // in storage order
  std::map<std::string, std::string> metadata;  // `__metadata__`
  std::uint64_t data_begin = 0;                 // first byte after the header

  // The tensor of that name, or nullptr if there is none.
  const SafetensorsEntry* find(std::string_view name) const;

  // Index into `tensors` by name.
  std::map<std::string, std::size_t, std::less<>> index;
};

// Maximum header length, as in other readers of the format.
inline constexpr std::uint64_t max_safetensors_header = 100'000'000;

// Parses and validates a whole file in memory. `name` is the file's name for messages. Refused
// (exit code 2): a header that is too long, is not JSON or has duplicate keys; unknown element
// types; ranges that overlap, leave gaps, differ from shape x type or do not end with the file.
// Unknown fields of a tensor are ignored, as in the reference implementation.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& name);

// Name of our type in safetensors files ("F32"), and the reverse (empty if unsupported).
std::string_view safetensors_type(DType dtype);
std::optional<DType> dtype_of_safetensors(std::string_view type);

// A validated, memory-mapped file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const fs::path& path);

  const fs::path& path() const { return path_; }
  std::uint64_t size() const { return file_.bytes().size(); }
  const SafetensorsHeader& header() const { return header_; }
  const std::vector<SafetensorsEntry>& tensors() const { return header_.tensors; }
  const SafetensorsEntry* find(std::string_view name) const { return header_.find(name); }
  // Like find, but a missing tensor throws an error that names the file.
  const SafetensorsEntry& at(std::string_view name) const;
  // Bytes of a tensor of this file, valid during the lifetime of this object.
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const {
    return file_.bytes().subspan(entry.begin, entry.bytes());
  }
  // The length field and the header, up to the first tensor.
  std::span<const std::byte> header_bytes() const {
    return file_.bytes().first(header_.data_begin);
  }

 private:
  fs::path path_;
  MappedFile file_;
  SafetensorsHeader header_;
};

}  // namespace trireme
