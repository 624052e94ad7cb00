// Writing of indexed token files.
#include "data/indexed_writer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <class T>
void encode(std::span<const std::int32_t> tokens, std::string& out) {
  out.resize(tokens.size() * sizeof(T));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const T value = static_cast<T>(tokens[i]);
    TRIREME_CHECK(static_cast<std::int64_t>(value) == tokens[i]);
    std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
  }
}

// Calls body(bytes) for the whole content of a file, piece by piece; pieces are multiples of 8.
template <class Body>
void for_each_piece(const File& file, Body&& body) {
  std::vector<std::byte> buffer(kBufferBytes);
  const std::uint64_t size = file.size();
  for (std::uint64_t at = 0; at < size;) {
    const std::size_t n = std::min<std::uint64_t>(buffer.size(), size - at);
    file.read_at(at, buffer.data(), n);
    body(std::span<const std::byte>(buffer.data(), n));
    at += n;
  }
}

}  // namespace

void IndexedDatasetWriter::Output::write(const void* bytes, std::size_t count) {
  buffer_.append(static_cast<const char*>(bytes), count);
  if (buffer_.size() >= kBufferBytes) flush();
}

void IndexedDatasetWriter::Output::flush() {
  file_.file().write(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void IndexedDatasetWriter::Output::complete() {
  flush();
  file_.complete();
}

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, TokenType type)
    : prefix_(dataset_prefix(prefix)),
      type_(type),
      bin_(prefix_ + ".bin"),
      lengths_(prefix_ + ".lengths"),
      starts_(prefix_ + ".starts"),
      modes_(prefix_ + ".modes") {
  const std::int64_t zero = 0;
  starts_.write(&zero, sizeof(zero));
}

IndexedDatasetWriter::~IndexedDatasetWriter() = default;

void IndexedDatasetWriter::end_document() {
  ++documents_;
  starts_.write(&sequences_, sizeof(sequences_));
}

void IndexedDatasetWriter::add_document(std::span<const std::int32_t> tokens,
                                        std::span<const std::int32_t> lengths) {
  if (type_ == TokenType::u16) {
    encode<std::uint16_t>(tokens, scratch_);
  } else {
    TRIREME_CHECK(type_ == TokenType::i32);
    encode<std::int32_t>(tokens, scratch_);
  }
  const auto count = static_cast<std::int32_t>(lengths.size());
  add_encoded(std::as_bytes(std::span(scratch_)), lengths, {&count, 1});
}

void IndexedDatasetWriter::add_document(std::span<const std::int32_t> tokens) {
  const auto length = static_cast<std::int32_t>(tokens.size());
  add_document(tokens, {&length, 1});
}

void IndexedDatasetWriter::add_encoded(std::span<const std::byte> tokens,
                                       std::span<const std::int32_t> lengths,
                                       std::span<const std::int32_t> sequences_of_document) {
  const std::int64_t count = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  TRIREME_CHECK(count * size_of(type_) == static_cast<std::int64_t>(tokens.size()) && !has_modes_);
  bin_.write(tokens.data(), tokens.size());
  lengths_.write(lengths.data(), lengths.size_bytes());
  for (const std::int32_t n : sequences_of_document) {
    sequences_ += n;
    end_document();
  }
  tokens_ += count;
}

void IndexedDatasetWriter::add_dataset(const IndexedDataset& other) {
  if (other.token_type() != type_) {
    fail_input(
        "cannot append '{}' with {} tokens to '{}' with {} tokens: create both with the same "
        "tokenizer",
        other.prefix(), name_of(other.token_type()), prefix_, name_of(type_));
  }
  add_modes(other);
  constexpr std::int64_t piece = 1 << 16;
  std::vector<std::byte> buffer;
  for (std::int64_t i = 0; i < other.sequences(); ++i) {
    const std::int64_t length = other.length(i);
    const auto stored = static_cast<std::int32_t>(length);
    lengths_.write(&stored, sizeof(stored));
    for (std::int64_t first = 0; first < length; first += piece) {
      const std::int64_t count = std::min(piece, length - first);
      buffer.resize(static_cast<std::size_t>(count * size_of(type_)));
      other.read_stored(i, first, count, buffer.data());
      bin_.write(buffer.data(), buffer.size());
    }
  }
  const std::int64_t before = sequences_;
  for (std::int64_t d = 0; d < other.documents(); ++d) {
    sequences_ = before + other.document_start(d + 1);
    end_document();
  }
  tokens_ += other.tokens();
}

void IndexedDatasetWriter::add_modes(const IndexedDataset& other) {
  if (other.sequences() == 0) return;
  if (sequences_ > 0 && other.has_modes() != has_modes_) {
    fail_input(
        "cannot append '{}', which has {}modes (multimodal data), to '{}', which has {}: join "
        "files of one kind",
        other.prefix(), has_modes_ ? "no " : "", prefix_, has_modes_ ? "them" : "none");
  }
  has_modes_ = other.has_modes();
  modes_.write(other.modes().data(), other.modes().size());
}

void IndexedDatasetWriter::write_index() {
  Output& idx = idx_.emplace(prefix_ + ".idx");
  std::string header{"MMIDIDX\0\0", 9};
  append(header, std::uint64_t{1});
  append(header, static_cast<std::uint8_t>(type_));
  append(header, static_cast<std::uint64_t>(sequences_));
  append(header, static_cast<std::uint64_t>(documents_ + 1));
  idx.write(header.data(), header.size());
  lengths_.flush();
  for_each_piece(lengths_.file(), [&](auto bytes) { idx.write(bytes.data(), bytes.size()); });
  std::int64_t offset = 0;
  for_each_piece(lengths_.file(), [&](auto bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += 4) {
      std::int32_t length;
      std::memcpy(&length, bytes.data() + at, 4);
      idx.write(&offset, sizeof(offset));
      offset += std::int64_t{length} * size_of(type_);
    }
  });
  starts_.flush();
  for_each_piece(starts_.file(), [&](auto bytes) { idx.write(bytes.data(), bytes.size()); });
  modes_.flush();
  for_each_piece(modes_.file(), [&](auto bytes) { idx.write(bytes.data(), bytes.size()); });
}

void IndexedDatasetWriter::complete() {
  write_index();
  bin_.complete();
  idx_->complete();
}

void IndexedDatasetWriter::keep() {
  TRIREME_CHECK(idx_);
  // An index says nothing about the content of its tokens, so an old one over new tokens would be
  // read without complaint: it goes first. The new one comes last, when its tokens are there.
  const fs::path index = prefix_ + ".idx";
  if (fs::remove(index)) sync_parent(index);
  bin_.keep();
  idx_->keep();
}

}  // namespace trireme
