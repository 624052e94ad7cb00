// Reads a file of ranks as tiktoken has it.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/file.h"
#include "base/foreign_bytes.h"
#include "tokenizer/bpe/byte_level.h"
#include "tokenizer/bpe/tiktoken_kinds.h"
#include "tokenizer/fingerprint.h"
#include "tokenizer/vocabulary_lines.h"

namespace trireme {
namespace {

constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 28;
constexpr std::size_t kMaxTokenBytes = 1024;

struct RankLine {
  const std::string& file;
  std::size_t number;
  std::string_view text;
  std::size_t limit;  // of ranks: they leave no holes, so there are fewer than the file has bytes

  [[noreturn]] void refuse(std::string_view why) const {
    fail_input("'{}' line {}: {}; expected a token in base64, a space and its rank", file, number,
               why);
  }

  std::string token() const {
    const std::string_view code = text.substr(0, text.find(' '));
    if (code.empty() || code.size() % 4 != 0) refuse("the base64 is incomplete");
    std::string bytes;
    for (std::size_t i = 0; i < code.size(); i += 4) {
      const bool last = i + 4 == code.size();
      const int padding = last && code[i + 3] == '=' ? 1 + (code[i + 2] == '=') : 0;
      std::uint32_t group = 0;
      for (std::size_t k = 0; k < 4; ++k) {
        group = group << 6 | (k + static_cast<std::size_t>(padding) >= 4 ? 0 : digit(code[i + k]));
      }
      for (int k = 0; k < 3 - padding; ++k)
        bytes.push_back(static_cast<char>(group >> (16 - 8 * k)));
    }
    if (bytes.empty()) refuse("the token is empty");
    if (bytes.size() > kMaxTokenBytes) refuse("the token is longer than 1024 bytes");
    return bytes;
  }

  std::int32_t rank() const {
    const std::size_t space = text.find(' ');
    std::int32_t rank = -1;
    if (space != std::string_view::npos) {
      const char* end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data() + space + 1, end, rank);
      if (error != std::errc() || stop != end) rank = -1;
    }
    if (rank < 0) refuse("there is no rank");
    if (static_cast<std::size_t>(rank) >= limit) refuse("the rank is too large");
    return rank;
  }

 private:
  std::uint32_t digit(char c) const {
    if (c >= 'A' && c <= 'Z') return static_cast<std::uint32_t>(c - 'A');
    if (c >= 'a' && c <= 'z') return static_cast<std::uint32_t>(c - 'a' + 26);
    if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0' + 52);
    if (c == '+') return 62;
    if (c == '/') return 63;
    refuse("the token is not base64");
  }
};

Vocabulary read_ranks(const std::string& file, std::string_view content) {
  Vocabulary ranks;
  const std::size_t limit = content.size();
  refuse_if_foreign(file, content);
  content = without_byte_order_mark(content);
  for (std::size_t number = 1; !content.empty(); ++number) {
    const std::string_view text = trimmed_end(take_vocabulary_line(content));
    if (text.empty()) continue;
    const RankLine line{file, number, text, limit};
    const std::string token = line.token();
    const std::int32_t rank = line.rank();
    if (ranks.has(rank)) line.refuse("the rank is taken by an earlier token");
    if (ranks.find(token) >= 0) line.refuse("the token has a rank already");
    ranks.add(rank, token);
  }
  if (ranks.count() == 0) fail_input("'{}' contains no tokens", file);
  if (const std::int32_t hole = ranks.first_hole(); hole >= 0) {
    fail_input(
        "'{}': no token has the rank {}, but others have ranks up to {}; is the file complete?",
        file, hole, ranks.size() - 1);
  }
  return ranks;
}

std::int32_t id_of(std::string_view content, const std::vector<AddedToken>& tokens) {
  for (const AddedToken& token : tokens) {
    if (token.content == content) return token.id;
  }
  return -1;
}

}  // namespace

std::unique_ptr<Tokenizer> load_tiktoken(const std::string& model_file, const std::string& pattern,
                                         bool special_text) {
  const std::string content = read_file(model_file, kMaxFile);
  Vocabulary ranks = read_ranks(model_file, content);
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (ranks.find({&text, 1}) < 0) {
      fail_input("'{}' has no token for the single byte 0x{:02x}; it should have all 256",
                 model_file, byte);
    }
  }
  const TiktokenKind& kind = tiktoken_kind(pattern, ranks, model_file);
  MergeTable merges = merges_of_ranks(ranks);
  std::vector<AddedToken> special = kind.special(ranks.size());
  ByteLevelParts parts{.bpe = ByteBpe(std::move(ranks), std::move(merges), true),
                       .pattern = kind.pattern,
                       .nfc = kind.nfc};
  if (kind.regex) parts.regex.emplace(kind.regex, std::string(kind.name));
  const std::int32_t end = id_of(kind.end, special), begin = id_of(kind.begin, special);
  parts.special = {.eod = end, .bos = begin, .eos = end};
  parts.special.pad = id_of("[PAD]", special);
  parts.special.unk = id_of("[UNK]", special);
  if (kind.begins_texts) parts.prefix = begin;
  parts.added = std::move(special);
  parts.special_text = special_text;
  Fingerprint fingerprint("tiktoken");
  fingerprint.add(content).add(special_text);
  if (!pattern.empty()) fingerprint.add(kind.name);
  parts.fingerprint = fingerprint.digest();
  return std::make_unique<ByteLevelTokenizer>(std::move(parts));
}

}  // namespace trireme
