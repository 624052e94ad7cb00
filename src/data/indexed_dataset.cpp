// Reading and checking of indexed token files.
#include "data/indexed_dataset.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>

#include "base/counted.h"
#include "base/error.h"
#include "base/foreign_bytes.h"
#include "base/thread_pool.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little endian");

constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
constexpr std::uint64_t kHeaderBytes = 34;
constexpr std::int64_t kCheckGrain = 1 << 18;

template <class T>
T load_at(std::string_view bytes, std::uint64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// Widens `count` tokens of type T; false if one does not fit into 32 bits.
template <class T>
bool widen(const std::byte* from, std::int64_t count, std::int32_t* out) {
  bool fits = true;
  for (std::int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    out[i] = static_cast<std::int32_t>(value);
    fits &= static_cast<std::int64_t>(out[i]) == static_cast<std::int64_t>(value);
  }
  return fits;
}

bool widen(TokenType type, const std::byte* from, std::int64_t count, std::int32_t* out) {
  switch (type) {
    case TokenType::u8:
      return widen<std::uint8_t>(from, count, out);
    case TokenType::i8:
      return widen<std::int8_t>(from, count, out);
    case TokenType::i16:
      return widen<std::int16_t>(from, count, out);
    case TokenType::u16:
      return widen<std::uint16_t>(from, count, out);
    case TokenType::i64:
      return widen<std::int64_t>(from, count, out);
    case TokenType::i32:
      return widen<std::int32_t>(from, count, out);
    case TokenType::f32:
    case TokenType::f64:
      break;
  }
  TRIREME_CHECK(!"a type of integers");
}

}  // namespace

std::string dataset_prefix(std::string prefix) {
  if (prefix.ends_with(".bin") || prefix.ends_with(".idx")) prefix.resize(prefix.size() - 4);
  return prefix;
}

IndexedDataset::IndexedDataset(const std::string& prefix) : prefix_(dataset_prefix(prefix)) {
  const File index = open_index();
  idx_ = MappedFile(index);
  parse_header();
  bin_ = File(bin_name(), File::Mode::read);
  // The writer removes an old index before it replaces the tokens: if this one is still there, the
  // tokens opened since are its own.
  if (!index.is_at_path()) {
    fail("'{}' was replaced while it was being opened: start again", idx_name());
  }
  check_sequences();
  check_documents();
}

// A file without an index: what other programs train on, or half of a pair.
void IndexedDataset::refuse_lone(const std::string& file) const {
  const File lone(file, File::Mode::read);
  std::string first(std::min<std::uint64_t>(lone.size(), foreign_bytes_wanted), '\0');
  lone.read_at(0, first.data(), first.size());
  const auto found = find_foreign_bytes(first);
  if (found && found->kind == ForeignBytes::Kind::tokens) refuse_foreign_bytes(file, *found);
  refuse_if_placeholder(file, first);  // bare tokens may begin like anything else
  if (file != bin_name()) {
    fail_input(
        "'{}' is a single file: data.path, or the given prefix, must be the path of a .bin and "
        ".idx pair without these extensions, as written by `trireme preprocess`",
        file);
  }
  fail_input(
      "'{}' exists, but '{}' does not: writing the pair was interrupted, or the file contains raw "
      "tokens of another program, such as nanoGPT; create the pair from the text with `trireme "
      "preprocess`",
      file, idx_name());
}

File IndexedDataset::open_index() const {
  if (fs::exists(idx_name())) return {idx_name(), File::Mode::read};
  for (const std::string& file : {bin_name(), prefix_}) {
    if (fs::is_regular_file(file)) refuse_lone(file);
  }
  if (fs::is_directory(prefix_)) {
    fail_input(
        "'{}' is a folder: data.path, or the given prefix, must be the path of a .bin and .idx "
        "pair without these extensions",
        prefix_);
  }
  fail_input(
      "cannot read '{}': no such file; data.path, or the given prefix, must be the output of "
      "`trireme preprocess`, without .bin and .idx",
      idx_name());
}

void IndexedDataset::parse_header() {
  const std::string_view bytes = idx_.text();
  const std::string name = idx_name();
  if (bytes.size() < kHeaderBytes) {
    fail_input("'{}' has {}, less than the {} of an index header: it is truncated", name,
               counted(bytes.size(), "byte"), kHeaderBytes);
  }
  if (!bytes.starts_with(kMagic)) {
    const bool older = bytes.starts_with("TNTIDX");
    fail_input("'{}' is not an index of tokens: it does not begin with MMIDIDX{}", name,
               older ? " but with TNTIDX, like files of fairseq or of Megatron's --dataset-impl "
                       "lazy or cached; recreate the pair from the text with `trireme "
                       "preprocess`"
                     : "");
  }
  const auto version = load_at<std::uint64_t>(bytes, 9);
  if (version != 1) fail_input("'{}' has format version {}; only 1 is supported", name, version);
  const auto code = load_at<std::uint8_t>(bytes, 17);
  if (code < 1 || code > 8) {
    fail_input("'{}' has the unknown token type code {}; valid codes are 1 to 8", name, code);
  }
  token_type_ = static_cast<TokenType>(code);
  if (token_type_ == TokenType::f32 || token_type_ == TokenType::f64) {
    fail_input("'{}' has elements of type {}, but tokens must be integers", name,
               name_of(token_type_));
  }
  const auto sequences = load_at<std::uint64_t>(bytes, 18);
  const auto starts = load_at<std::uint64_t>(bytes, 26);
  const std::uint64_t rest = bytes.size() - kHeaderBytes;
  // Divided, not multiplied: the counts may be anything.
  if (sequences > rest / 12 || starts > rest / 8) {
    fail_input("'{}' is truncated or corrupt: {} cannot contain {} and {}", name,
               counted(bytes.size(), "byte"), counted(sequences, "sequence"),
               counted(starts, "document"));
  }
  if (starts == 0) fail_input("'{}' is corrupt: its list of documents is empty", name);
  const std::uint64_t plain = sequences * 12 + starts * 8;
  if (rest != plain && rest != plain + sequences) {
    fail_input("'{}' has {}, but its header requires {}: it is {}", name,
               counted(bytes.size(), "byte"), kHeaderBytes + plain,
               rest < plain ? "truncated" : "corrupt");
  }
  has_modes_ = sequences > 0 && rest != plain;
  sequences_ = static_cast<std::int64_t>(sequences);
  documents_ = static_cast<std::int64_t>(starts) - 1;
  lengths_ = idx_.bytes().data() + kHeaderBytes;
  offsets_ = lengths_ + sequences_ * 4;
  starts_ = offsets_ + sequences_ * 8;
  modes_ = starts_ + (documents_ + 1) * 8;
}

std::span<const std::byte> IndexedDataset::modes() const {
  return {modes_, static_cast<std::size_t>(has_modes_ ? sequences_ : 0)};
}

void IndexedDataset::check_sequences() {
  parallel_ranges(sequences_, kCheckGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = std::max<std::int64_t>(begin, 1); i < end; ++i) refuse_wrapped(i);
  });
  const std::uint64_t bin_size = bin_.size();
  const auto width = static_cast<std::uint64_t>(size_of(token_type_));
  std::mutex mutex;
  parallel_ranges(sequences_, kCheckGrain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t tokens = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t count = length(i), at = offset(i);
      if (count < 0) fail_input("'{}' is corrupt: sequence {} has length {}", idx_name(), i, count);
      if (at < 0 || static_cast<std::uint64_t>(at) % width != 0) {
        fail_input(
            "'{}' is corrupt: sequence {} begins at byte {}, which is not a multiple of the size "
            "of a {} token",
            idx_name(), i, at, name_of(token_type_));
      }
      const auto first = static_cast<std::uint64_t>(at);
      if (first > bin_size || static_cast<std::uint64_t>(count) * width > bin_size - first) {
        fail_input(
            "'{}' has {}, but sequence {} of '{}' occupies bytes {} to {}: it is truncated or "
            "belongs to a different index",
            bin_name(), counted(bin_size, "byte"), i, idx_name(), first,
            first + static_cast<std::uint64_t>(count) * width);
      }
      tokens += count;
    }
    const std::lock_guard lock(mutex);
    // Overlapping sequences could make the sum as large as it likes.
    if (__builtin_add_overflow(tokens_, tokens, &tokens_)) {
      fail_input("'{}' is corrupt: its lengths add up to more than 2^63 tokens", idx_name());
    }
  });
}

// Offsets that were added up in 32 bits differ from the true ones by multiples of 2^32.
void IndexedDataset::refuse_wrapped(std::int64_t i) const {
  constexpr std::int64_t turn = std::int64_t{1} << 32;
  const std::int64_t before = length(i - 1), width = size_of(token_type_);
  std::int64_t expected = 0, difference = 0;
  if (before < 0 || __builtin_add_overflow(offset(i - 1), before * width, &expected) ||
      __builtin_sub_overflow(expected, offset(i), &difference) || difference == 0 ||
      difference % turn != 0) {
    return;
  }
  fail_input(
      "'{}' is corrupt: sequence {} begins at byte {}, where {} was expected: the offsets "
      "overflowed 32 bits, as in merges by Megatron-LM with NumPy 2; its lengths are correct, and "
      "`trireme data rebuild-index {}` recomputes the offsets",
      idx_name(), i, offset(i), expected, prefix_);
}

std::int64_t IndexedDataset::rebuild_index(const std::string& prefix) {
  IndexedDataset data;
  data.prefix_ = dataset_prefix(prefix);
  data.idx_ = MappedFile(data.open_index());
  data.parse_header();
  const std::string name = data.idx_name();
  const std::int64_t width = size_of(data.token_type_);
  std::string offsets(static_cast<std::size_t>(data.sequences_) * 8, '\0');
  std::int64_t at = 0, mended = 0;
  for (std::int64_t i = 0; i < data.sequences_; ++i) {
    const std::int64_t count = data.length(i);
    if (count < 0) fail_input("'{}' is corrupt: sequence {} has length {}", name, i, count);
    const std::uint64_t difference =
        static_cast<std::uint64_t>(at) - static_cast<std::uint64_t>(data.offset(i));
    if (difference % (std::uint64_t{1} << 32) != 0) {
      fail_input(
          "'{}': sequence {} begins at byte {}, but the lengths before it add up to {}: the "
          "difference is not a multiple of 2^32, so this is not a 32-bit overflow",
          name, i, data.offset(i), at);
    }
    mended += difference != 0;
    std::memcpy(offsets.data() + 8 * i, &at, 8);
    at += count * width;
  }
  const std::uint64_t size = File(data.bin_name(), File::Mode::read).size();
  if (static_cast<std::uint64_t>(at) != size) {
    fail_input("'{}' has {}, but the lengths in '{}' add up to {}: the two do not belong together",
               data.bin_name(), counted(size, "byte"), name, at);
  }
  data.check_documents();
  if (mended > 0) {
    std::string bytes(data.idx_.text());
    bytes.replace(static_cast<std::size_t>(data.offsets_ - data.idx_.bytes().data()),
                  offsets.size(), offsets);
    write_file_durably(name, bytes);
  }
  return mended;
}

void IndexedDataset::check_documents() const {
  if (document_start(0) != 0) {
    fail_input("'{}' is corrupt: its first document begins at sequence {}, not 0", idx_name(),
               document_start(0));
  }
  parallel_ranges(documents_, kCheckGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t d = begin; d < end; ++d) {
      if (document_start(d + 1) < document_start(d)) {
        fail_input("'{}' is corrupt: document {} ends at sequence {}, before its beginning at {}",
                   idx_name(), d, document_start(d + 1), document_start(d));
      }
    }
  });
  if (document_start(documents_) != sequences_) {
    fail_input("'{}' is corrupt: its documents end at sequence {}, but it has {}", idx_name(),
               document_start(documents_), sequences_);
  }
}

std::int64_t IndexedDataset::document_of(std::int64_t i) const {
  std::int64_t low = 0, high = documents_;  // the answer is in [low, high)
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (document_start(middle) <= i ? low : high) = middle;
  }
  return low;
}

std::vector<std::int32_t> IndexedDataset::lengths(std::int64_t first, std::int64_t last) const {
  TRIREME_CHECK(0 <= first && first <= last && last <= sequences_);
  std::vector<std::int32_t> result(static_cast<std::size_t>(last - first));
  if (!result.empty()) std::memcpy(result.data(), lengths_ + first * 4, result.size() * 4);
  return result;
}

void IndexedDataset::read_stored(std::int64_t sequence, std::int64_t first, std::int64_t count,
                                 std::byte* out) const {
  TRIREME_CHECK(0 <= sequence && sequence < sequences_ && first >= 0 && count >= 0 &&
                first <= length(sequence) - count);
  const int width = size_of(token_type_);
  bin_.read_at(static_cast<std::uint64_t>(offset(sequence) + first * width), out,
               static_cast<std::size_t>(count * width));
}

void IndexedDataset::read(std::int64_t sequence, std::int64_t first, std::int64_t count,
                          std::int32_t* out) const {
  std::array<std::byte, 1 << 16> buffer;
  const std::int64_t piece = static_cast<std::int64_t>(buffer.size()) / size_of(token_type_);
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t n = std::min(count - done, piece);
    read_stored(sequence, first + done, n, buffer.data());
    if (!widen(token_type_, buffer.data(), n, out + done)) {
      fail_input("'{}': sequence {} contains a token id of more than 32 bits", bin_name(),
                 sequence);
    }
    done += n;
  }
}

void IndexedDataset::check_ids(std::int64_t sequence, std::int64_t first, std::int64_t count,
                               const std::int32_t* ids, std::int64_t vocab_size) const {
  // As unsigned numbers negative ids are the largest.
  const auto limit = static_cast<std::uint32_t>(
      std::min<std::int64_t>(vocab_size, std::numeric_limits<std::int32_t>::max()));
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, static_cast<std::uint32_t>(ids[i]));
  }
  if (count == 0 || largest < limit) return;
  std::int64_t i = 0;
  while (static_cast<std::uint32_t>(ids[i]) < limit) ++i;
  const std::int64_t document = document_of(sequence);
  std::int64_t token = first + i;
  for (std::int64_t s = document_start(document); s < sequence; ++s) token += length(s);
  fail_input(
      "'{}': token {} of document {} is {}, outside of the vocabulary of {} ids: the data was "
      "tokenized with a different tokenizer, or the file is damaged",
      bin_name(), token, document, ids[i], vocab_size);
}

void IndexedDataset::check_all_ids(std::int64_t vocab_size) const {
  constexpr std::int64_t piece = 1 << 16;
  constexpr std::int64_t grain = 256;
  parallel_ranges(sequences_, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int32_t> ids(piece);
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t first = 0; first < length(i); first += piece) {
        const std::int64_t count = std::min(piece, length(i) - first);
        read(i, first, count, ids.data());
        check_ids(i, first, count, ids.data(), vocab_size);
      }
    }
  });
}

}  // namespace trireme
