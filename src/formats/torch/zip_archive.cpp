// Parses the end record, then the directory, then the entries, and checks that every byte of the
// archive is accounted for.
#include "formats/torch/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "base/counted.h"
#include "base/error.h"
#include "base/printable.h"

namespace trireme {
namespace {

constexpr std::uint32_t local_mark = 0x04034b50, central_mark = 0x02014b50, end_mark = 0x06054b50,
                        wide_end_mark = 0x06064b50, wide_place_mark = 0x07064b50,
                        descriptor_mark = 0x08074b50;
constexpr std::uint64_t local_bytes = 30, central_bytes = 46, end_bytes = 22, wide_end_bytes = 56,
                        wide_place_bytes = 20;
constexpr std::uint32_t in_wide_field = 0xffffffff;
constexpr std::uint32_t encrypted_flag = 1, descriptor_flag = 8, strongly_encrypted_flag = 64;
constexpr std::size_t longest_entry_name = 4096;

// An entry as described by its local or central header.
struct ZipHeader {
  std::string_view name;
  std::uint32_t flags = 0, method = 0, crc = 0;
  std::uint64_t packed = 0, bytes = 0;
  std::uint64_t local = 0;  // offset of the local header; central directory only
  std::uint64_t end = 0;    // end offset of the header
};

struct ZipDirectory {
  std::uint64_t begin = 0, bytes = 0, entries = 0;
};

class ZipParser {
 public:
  ZipParser(std::span<const std::byte> file, const std::string& name) : file_(file), name_(name) {}

  std::vector<ZipEntry> parse() const {
    const ZipDirectory directory = find_directory();
    std::vector<ZipHeader> headers = read_directory(directory);
    std::ranges::sort(headers, {}, &ZipHeader::local);
    std::vector<ZipEntry> entries;
    std::uint64_t next = 0;
    for (std::size_t i = 0; i < headers.size(); ++i) {
      const std::uint64_t limit = i + 1 < headers.size() ? headers[i + 1].local : directory.begin;
      if (headers[i].local != next) refuse_gap(headers[i], next);
      entries.push_back(read_entry(headers[i], limit));
      next = limit;
    }
    if (next != directory.begin) refuse("its directory does not follow its last entry");
    std::ranges::sort(entries, {}, &ZipEntry::name);
    const auto twice = std::ranges::adjacent_find(entries, {}, &ZipEntry::name);
    if (twice != entries.end()) refuse(fmt::format("it holds '{}' twice", printable(twice->name)));
    return entries;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail_input("'{}' is not a valid zip archive: {}", name_, what);
  }
  [[noreturn]] void refuse_gap(const ZipHeader& header, std::uint64_t expected) const {
    refuse(fmt::format("'{}' begins at byte {} where {} was expected ({})", printable(header.name),
                       header.local, expected, header.local < expected ? "overlap" : "hole"));
  }

  template <class T>
  std::uint64_t number(std::uint64_t at) const {
    T value;
    if (at > file_.size() || file_.size() - at < sizeof value) {
      refuse(
          fmt::format("it is cut off: byte {} of {} is needed", at + sizeof value, file_.size()));
    }
    std::memcpy(&value, file_.data() + at, sizeof value);
    return value;
  }
  std::uint32_t word(std::uint64_t at) const {
    return static_cast<std::uint32_t>(number<std::uint32_t>(at));
  }
  std::uint32_t half(std::uint64_t at) const {
    return static_cast<std::uint32_t>(number<std::uint16_t>(at));
  }
  std::string_view text(std::uint64_t at, std::uint64_t bytes) const {
    if (at > file_.size() || file_.size() - at < bytes) refuse("it is truncated within a name");
    return {reinterpret_cast<const char*>(file_.data()) + at, static_cast<std::size_t>(bytes)};
  }

  ZipDirectory find_directory() const {
    const std::uint64_t size = file_.size();
    if (size < end_bytes || word(size - end_bytes) != end_mark) {
      refuse(
          "it does not end with an end-of-central-directory record: it is truncated, or bytes "
          "follow it");
    }
    const std::uint64_t end = size - end_bytes;
    ZipDirectory narrow{word(end + 16), word(end + 12), half(end + 10)};
    if (half(end + 20) != 0) refuse("it has a comment");
    const bool several =
        half(end + 4) != 0 || half(end + 6) != 0 || half(end + 8) != narrow.entries;
    std::uint64_t directory_end = end;
    if (end >= wide_place_bytes && word(end - wide_place_bytes) == wide_place_mark) {
      const std::uint64_t wide = number<std::uint64_t>(end - wide_place_bytes + 8);
      if (word(end - wide_place_bytes + 4) != 0 || word(end - wide_place_bytes + 16) > 1) {
        refuse("it is a multi-part archive");
      }
      narrow = read_wide_end(wide, end - wide_place_bytes, narrow);
      directory_end = wide;
    } else if (several) {
      refuse("it is a multi-part archive");
    }
    if (narrow.begin > directory_end || directory_end - narrow.begin != narrow.bytes) {
      refuse(
          fmt::format("its directory of {} at byte {} does not end where the end of the "
                      "archive begins, at byte {}",
                      counted(narrow.bytes, "byte"), narrow.begin, directory_end));
    }
    return narrow;
  }

  // Reads the zip64 end record of an archive.
  ZipDirectory read_wide_end(std::uint64_t at, std::uint64_t expected_end,
                             const ZipDirectory& narrow) const {
    if (at > expected_end || expected_end - at != wide_end_bytes || word(at) != wide_end_mark ||
        number<std::uint64_t>(at + 4) != wide_end_bytes - 12) {
      refuse("its zip64 end-of-central-directory record is not where its locator says");
    }
    const ZipDirectory wide{number<std::uint64_t>(at + 48), number<std::uint64_t>(at + 40),
                            number<std::uint64_t>(at + 32)};
    const auto agrees = [](std::uint64_t one, std::uint64_t both, std::uint64_t sentinel) {
      return one == both || one == sentinel;
    };
    if (word(at + 16) != 0 || word(at + 20) != 0 ||
        number<std::uint64_t>(at + 24) != wide.entries) {
      refuse("it is a multi-part archive");
    }
    if (!agrees(narrow.begin, wide.begin, in_wide_field) ||
        !agrees(narrow.bytes, wide.bytes, in_wide_field) ||
        !agrees(narrow.entries, wide.entries, 0xffff)) {
      refuse("its zip64 and plain end-of-central-directory records contradict each other");
    }
    return wide;
  }

  std::vector<ZipHeader> read_directory(const ZipDirectory& directory) const {
    if (directory.entries > directory.bytes / central_bytes) {
      refuse(fmt::format("its directory of {} cannot list {}", counted(directory.bytes, "byte"),
                         counted(directory.entries, "entry")));
    }
    std::vector<ZipHeader> headers;
    std::uint64_t at = directory.begin;
    for (std::uint64_t i = 0; i < directory.entries; ++i) {
      headers.push_back(read_central(at));
      at = headers.back().end;
    }
    if (at != directory.begin + directory.bytes) {
      refuse("its directory is longer than the entries that it lists");
    }
    return headers;
  }

  ZipHeader read_central(std::uint64_t at) const {
    if (word(at) != central_mark) refuse(fmt::format("its directory is damaged at byte {}", at));
    ZipHeader header{.flags = half(at + 8),
                     .method = half(at + 10),
                     .crc = word(at + 16),
                     .packed = word(at + 20),
                     .bytes = word(at + 24),
                     .local = word(at + 42)};
    const std::uint64_t name_bytes = half(at + 28), extra_bytes = half(at + 30);
    header.name = text(at + central_bytes, name_bytes);
    check_name(header.name);
    if (half(at + 34) != 0) refuse("it is a multi-part archive");
    if (half(at + 32) != 0) refuse(fmt::format("'{}' has a comment", printable(header.name)));
    const std::uint64_t extra = at + central_bytes + name_bytes;
    read_wide_field(header, extra, extra_bytes, {&header.bytes, &header.packed, &header.local});
    header.end = extra + extra_bytes;
    check_method(header);
    return header;
  }

  // Reads the zip64 extra field, which has the overflowing numbers in this order.
  void read_wide_field(const ZipHeader& header, std::uint64_t at, std::uint64_t bytes,
                       std::initializer_list<std::uint64_t*> numbers) const {
    text(at, bytes);
    const std::uint64_t end = at + bytes;
    bool seen = false;
    while (end - at >= 4) {
      const std::uint32_t kind = half(at);
      std::uint64_t left = half(at + 2);
      at += 4;
      if (left > end - at) break;
      const std::uint64_t field_end = at + left;
      if (kind == 1 && seen)
        refuse(fmt::format("'{}' has two zip64 fields", printable(header.name)));
      seen = seen || kind == 1;
      for (std::uint64_t* value : numbers) {
        if (kind != 1 || *value != in_wide_field) continue;
        if (left < 8)
          refuse(fmt::format("the zip64 field of '{}' is too short", printable(header.name)));
        *value = number<std::uint64_t>(at);
        at += 8;
        left -= 8;
      }
      at = field_end;
    }
    if (at != end)
      refuse(fmt::format("the extra field of '{}' is damaged", printable(header.name)));
  }

  void check_name(std::string_view name) const {
    const bool odd = name.empty() || name.size() > longest_entry_name || name.front() == '/' ||
                     name.find('\\') != name.npos || name.find('\0') != name.npos;
    const std::string framed = "/" + std::string(name) + "/";
    if (odd || framed.find("/../") != framed.npos || framed.find("/./") != framed.npos) {
      refuse(fmt::format("'{}' is not a name for an entry", printable(name)));
    }
  }
  void check_method(const ZipHeader& header) const {
    if (header.flags & (encrypted_flag | strongly_encrypted_flag)) {
      refuse(fmt::format("'{}' is encrypted", printable(header.name)));
    }
    if (header.method != 0 || header.packed != header.bytes) {
      refuse(
          fmt::format("'{}' is compressed, which torch.save never does: load the file in Python "
                      "and save it again",
                      printable(header.name)));
    }
  }

  // Validates the local header and what follows the content, up to `limit`.
  ZipEntry read_entry(const ZipHeader& central, std::uint64_t limit) const {
    const std::uint64_t at = central.local;
    if (word(at) != local_mark) {
      refuse(fmt::format("'{}' does not begin at byte {}", printable(central.name), at));
    }
    ZipHeader local{.flags = half(at + 6),
                    .method = half(at + 8),
                    .crc = word(at + 14),
                    .packed = word(at + 18),
                    .bytes = word(at + 22)};
    const std::uint64_t name_bytes = half(at + 26), extra_bytes = half(at + 28);
    local.name = text(at + local_bytes, name_bytes);
    const std::uint64_t extra = at + local_bytes + name_bytes;
    read_wide_field(central, extra, extra_bytes, {&local.bytes, &local.packed});
    const bool later = local.flags & descriptor_flag;
    const auto agrees = [&](std::uint64_t one, std::uint64_t both) {
      return one == both || (later && one == 0);
    };
    if (local.name != central.name || local.flags != central.flags ||
        local.method != central.method || !agrees(local.crc, central.crc) ||
        !agrees(local.packed, central.packed) || !agrees(local.bytes, central.bytes)) {
      refuse(fmt::format("the header of '{}' contradicts the directory", printable(central.name)));
    }
    const std::uint64_t begin = extra + extra_bytes;
    if (begin > limit || limit - begin < central.bytes) {
      refuse(
          fmt::format("'{}' of {} at byte {} reaches beyond byte {}, where something else "
                      "begins (overlap)",
                      central.name, counted(central.bytes, "byte"), begin, limit));
    }
    check_tail(central, begin + central.bytes, limit, later);
    return {std::string(central.name), begin, central.bytes, central.crc};
  }

  // Between content and next header: nothing, or a data descriptor with checksum and sizes.
  void check_tail(const ZipHeader& central, std::uint64_t at, std::uint64_t limit,
                  bool later) const {
    if (!later && at == limit) return;
    const std::uint64_t bytes = limit - at;
    const bool right =
        later && (bytes == 16 || bytes == 24) && word(at) == descriptor_mark &&
        word(at + 4) == central.crc &&
        (bytes == 16 ? word(at + 8) == central.packed && word(at + 12) == central.bytes
                     : number<std::uint64_t>(at + 8) == central.packed &&
                           number<std::uint64_t>(at + 16) == central.bytes);
    if (!right) {
      refuse(fmt::format("'{}' is followed by {} of no entry (hole)", printable(central.name),
                         counted(bytes, "byte")));
    }
  }

  std::span<const std::byte> file_;
  const std::string& name_;
};

}  // namespace

bool is_zip_archive(std::span<const std::byte> file) {
  return file.size() >= 4 && std::memcmp(file.data(), "PK\3\4", 4) == 0;
}

std::vector<ZipEntry> parse_zip(std::span<const std::byte> file, const std::string& name) {
  return ZipParser(file, name).parse();
}

std::uint32_t zip_crc(std::uint32_t crc, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace trireme
