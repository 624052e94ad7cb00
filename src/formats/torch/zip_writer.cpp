// Writes headers with sizes and checksums; the checksum is filled in after the content.
#include "formats/torch/zip_writer.h"

#include <algorithm>

#include "base/error.h"
#include "formats/torch/little_endian.h"
#include "formats/torch/zip_archive.h"

namespace trireme {
namespace {

constexpr std::uint32_t wide_mark = 0xffffffff;
constexpr std::uint64_t alignment = 64;
constexpr std::uint64_t crc_in_header = 14;

std::string half(std::uint64_t value) {
  return little_endian(static_cast<std::uint16_t>(value));
}
std::string word(std::uint64_t value) {
  return little_endian(static_cast<std::uint32_t>(value));
}
std::string wide(std::uint64_t value) {
  return little_endian(value);
}

// Version needed to extract, flags (UTF-8 names), method, time and date.
std::string common(bool is_wide) {
  return half(is_wide ? 45 : 20) + half(0x0800) + half(0) + half(0) + half(0x21);
}

// The zip64 extra field with the overflowing numbers.
std::string wide_field(const std::string& numbers) {
  return numbers.empty() ? "" : half(1) + half(numbers.size()) + numbers;
}

}  // namespace

ZipWriter::ZipWriter(const fs::path& path, bool always_wide)
    : own_(path), file_(&*own_), always_wide_(always_wide) {}

bool ZipWriter::is_wide(std::uint64_t number) const {
  return always_wide_ || number >= wide_mark;
}

void ZipWriter::append(std::string_view bytes) {
  file_->file().write_at(base_ + at_, bytes.data(), bytes.size());
  at_ += bytes.size();
}

void ZipWriter::begin(const std::string& name, std::uint64_t bytes) {
  if (!entries_.empty()) end_entry();
  entries_.push_back({name, at_, bytes});
  const bool in_wide = is_wide(bytes);
  const std::string size = word(in_wide ? wide_mark : bytes);
  const std::string header = "PK\3\4" + common(in_wide) + word(0) + size + size + half(name.size());
  std::string extra = wide_field(in_wide ? wide(bytes) + wide(bytes) : "");
  // PyTorch's padding field, which aligns the content.
  const std::uint64_t begin = at_ + header.size() + 2 + name.size() + extra.size() + 4;
  const std::uint64_t padding = (alignment - begin % alignment) % alignment;
  extra += "FB" + half(padding) + std::string(padding, 'Z');
  append(header + half(extra.size()) + name + extra);
  left_ = bytes;
}

void ZipWriter::write(std::span<const std::byte> bytes) {
  TRIREME_CHECK(bytes.size() <= left_);
  Entry& entry = entries_.back();
  entry.crc = zip_crc(entry.crc, bytes);
  append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  left_ -= bytes.size();
}

void ZipWriter::end_entry() {
  TRIREME_CHECK(left_ == 0);
  const Entry& entry = entries_.back();
  file_->file().write_at(base_ + entry.header + crc_in_header, &entry.crc, sizeof entry.crc);
}

void ZipWriter::add(const std::string& name, std::string_view content) {
  begin(name, content.size());
  write(std::as_bytes(std::span(content)));
}

std::uint64_t ZipWriter::finish() {
  end_entry();
  const std::uint64_t begin = at_;
  for (const Entry& entry : entries_) {
    const bool size_wide = is_wide(entry.bytes), place_wide = is_wide(entry.header);
    const std::string size = word(size_wide ? wide_mark : entry.bytes);
    const std::string extra = wide_field((size_wide ? wide(entry.bytes) + wide(entry.bytes) : "") +
                                         (place_wide ? wide(entry.header) : ""));
    append("PK\1\2" + half(45) + common(size_wide || place_wide) + word(entry.crc) + size + size +
           half(entry.name.size()) + half(extra.size()) + half(0) + half(0) + half(0) + word(0) +
           word(place_wide ? wide_mark : entry.header) + entry.name + extra);
  }
  const std::uint64_t bytes = at_ - begin, count = entries_.size();
  const bool all_wide = is_wide(begin) || count >= 0xffff;
  if (all_wide) {
    const std::uint64_t wide_end = at_;
    append("PK\6\6" + wide(44) + half(45) + half(45) + word(0) + word(0) + wide(count) +
           wide(count) + wide(bytes) + wide(begin));
    append("PK\6\7" + word(0) + wide(wide_end) + word(1));
  }
  const std::string entries = half(all_wide ? 0xffff : count);
  append("PK\5\6" + half(0) + half(0) + entries + entries + word(all_wide ? wide_mark : bytes) +
         word(all_wide ? wide_mark : begin) + half(0));
  if (own_) own_->keep();
  return at_;
}

}  // namespace trireme
