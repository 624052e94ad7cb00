// Plain files, and what a file is compressed with.
#include "data/documents/byte_source.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "base/foreign_bytes.h"
#include "data/documents/document_names.h"
#include "data/documents/plain_source.h"

namespace trireme {
namespace {

using namespace std::string_view_literals;
using Start = std::unique_ptr<ByteSource> (*)(const fs::path&);

struct Format {
  std::string_view magic;
  Start start;
};
constexpr Format formats[] = {{"\x1f\x8b"sv, open_gzip},
                              {"\xfd"
                               "7zXZ\0"sv,
                               open_xz},
                              {"\x28\xb5\x2f\xfd"sv, open_zstd}};

// The first bytes behind all frames to be skipped (0x184D2A50 to 5F, and the size of what follows),
// which zstd and lz4 share; empty if there is nothing but such frames.
std::string first_bytes(const fs::path& path) {
  const File file(path, File::Mode::read);
  const std::uint64_t size = file.size();
  std::string bytes;
  for (std::uint64_t at = 0; at < size;) {
    bytes.resize(std::min<std::uint64_t>(size - at, foreign_bytes_wanted));
    file.read_at(at, bytes.data(), bytes.size());
    const std::string_view head = bytes;
    if (bytes.size() < 8 || (bytes[0] & 0xf0) != 0x50 || head.substr(1, 3) != "\x2a\x4d\x18") {
      return bytes;
    }
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      length |= std::uint64_t{static_cast<unsigned char>(bytes[4 + i])} << (8 * i);
    }
    at += 8 + length;
  }
  return {};
}

bool begins_with_skippable_frame(const fs::path& path) {
  std::array<char, 4> first{};
  PlainSource(path).read(first.data(), first.size());
  return (first[0] & 0xf0) == 0x50 && std::string_view(first.data() + 1, 3) == "\x2a\x4d\x18";
}

// The decompressor of the file; null for a plain one. Rejects what cannot be decompressed here.
Start decompressor_of(const fs::path& path) {
  const std::string first = first_bytes(path);
  for (const Format& format : formats) {
    if (first.starts_with(format.magic)) return format.start;
  }
  const std::optional<ForeignBytes> foreign = find_foreign_bytes(first);
  if (foreign && foreign->kind != ForeignBytes::Kind::tokens) {
    const bool packed = foreign->kind == ForeignBytes::Kind::compressed;
    // The reader judges the content of a plain file.
    if (packed) {
      fail_input("'{}' is {}, which is not supported: expected a plain, gzip, xz or zstd file; {}",
                 path.string(), foreign->what, foreign->remedy);
    }
    if (!packed && !compression_named(path.filename().string()).empty()) {
      refuse_foreign_bytes(path.string(), *foreign);
    }
  }
  // Legacy formats of zstd: the library says whether it knows them.
  if (first.size() >= 4 && first.substr(1, 3) == "\xb5\x2f\xfd") return open_zstd;
  if (begins_with_skippable_frame(path)) return open_zstd;
  if (const std::string_view name = compression_named(path.filename().string()); !name.empty()) {
    if (fs::file_size(path) == 0) {
      fail_input("'{}' is empty: expected {} data; writing or downloading it was interrupted",
                 path.string(), name);
    }
    fail_input(
        "'{}' has the extension of a {} file, but its contents do not match: it is damaged or of a "
        "different type; rename it if it is plain text",
        path.string(), name);
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const fs::path& path) {
  if (const Start start = decompressor_of(path)) return start(path);
  return std::make_unique<PlainSource>(path);
}

std::unique_ptr<ByteSource> open_byte_range(const fs::path& path, std::uint64_t begin,
                                            std::uint64_t end) {
  return std::make_unique<PlainSource>(path, begin, end);
}

bool is_compressed(const fs::path& path) {
  return decompressor_of(path) != nullptr;
}

}  // namespace trireme
