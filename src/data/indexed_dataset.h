// Reader of indexed token files, `<prefix>.bin` and `<prefix>.idx` (Megatron's format).
//
// The .idx file is little endian: "MMIDIDX\0\0", u64 version 1, u8 token type, u64 S sequences,
// u64 D (documents + 1), then i32[S] lengths in tokens, i64[S] byte offsets into .bin, i64[D] first
// sequence of each document (first 0, last S), optionally i8[S] modes. The .bin file holds nothing
// but tokens. A document is a run of sequences: one for GPT, one per sentence for BERT.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/token_type.h"

namespace trireme {

// Immutable after construction; every method is thread-safe.
class IndexedDataset {
 public:
  // Opens both files and checks the whole index against their sizes, so that every sequence is
  // known to lie inside .bin. A pair that is replaced meanwhile is never mixed up. A prefix that
  // ends in .bin or .idx means the pair. Throws bad_input with the file and the reason.
  explicit IndexedDataset(const std::string& prefix);

  // Writes the index of a pair again whose offsets were added up in 32 bits, from its lengths;
  // returns how many sequences had a wrong one. Throws bad_input, and changes nothing, for a pair
  // that has other faults.
  static std::int64_t rebuild_index(const std::string& prefix);

  const std::string& prefix() const { return prefix_; }
  TokenType token_type() const { return token_type_; }
  std::int64_t sequences() const { return sequences_; }
  std::int64_t documents() const { return documents_; }
  // Sum of all lengths.
  std::int64_t tokens() const { return tokens_; }
  std::uint64_t bin_bytes() const { return bin_.size(); }
  // Whether the index holds a mode for each sequence (multimodal data). Training ignores them.
  bool has_modes() const { return has_modes_; }
  std::span<const std::byte> modes() const;

  // Length of sequence `i` in tokens.
  std::int64_t length(std::int64_t i) const { return load<std::int32_t>(lengths_, i); }
  // Byte offset of sequence `i` in .bin.
  std::int64_t offset(std::int64_t i) const { return load<std::int64_t>(offsets_, i); }
  // First sequence of document `d`, for d in [0, documents()]; document_start(documents()) is
  // sequences().
  std::int64_t document_start(std::int64_t d) const { return load<std::int64_t>(starts_, d); }

  // The document that holds sequence `i`.
  std::int64_t document_of(std::int64_t i) const;

  // Lengths of the sequences [first, last).
  std::vector<std::int32_t> lengths(std::int64_t first, std::int64_t last) const;

  // Reads the bytes of tokens [first, first + count) of a sequence, as they are stored.
  void read_stored(std::int64_t sequence, std::int64_t first, std::int64_t count,
                   std::byte* out) const;

  // Writes tokens [first, first + count) of a sequence to `out`. Refuses ids that do not fit into
  // 32 bits. The tokens are read, not mapped: a file that shrinks under a run gives an error
  // instead of a bus error, and the page cache does not count as memory of the process.
  void read(std::int64_t sequence, std::int64_t first, std::int64_t count, std::int32_t* out) const;

  // Throws bad_input for the first token of `ids` (those that read() gave for this place) that is
  // not in [0, vocab_size), naming file, document and token.
  void check_ids(std::int64_t sequence, std::int64_t first, std::int64_t count,
                 const std::int32_t* ids, std::int64_t vocab_size) const;

  // check_ids over the whole file, in bounded memory.
  void check_all_ids(std::int64_t vocab_size) const;

 private:
  // The arrays of an .idx file start at byte 34, so they are never aligned.
  template <class T>
  static T load(const std::byte* array, std::int64_t i) {
    T value;
    std::memcpy(&value, array + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
  IndexedDataset() = default;
  File open_index() const;
  [[noreturn]] void refuse_lone(const std::string& file) const;
  void parse_header();
  void check_sequences();
  void refuse_wrapped(std::int64_t sequence) const;
  void check_documents() const;
  std::string idx_name() const { return prefix_ + ".idx"; }
  std::string bin_name() const { return prefix_ + ".bin"; }

  std::string prefix_;
  MappedFile idx_;
  File bin_;
  TokenType token_type_ = TokenType::u16;
  std::int64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
  bool has_modes_ = false;
  const std::byte* lengths_ = nullptr;
  const std::byte* offsets_ = nullptr;
  const std::byte* starts_ = nullptr;
  const std::byte* modes_ = nullptr;
};

// `prefix` without a trailing ".bin" or ".idx".
std::string dataset_prefix(std::string prefix);

}  // namespace trireme
