// Reads a file of ranks as tiktoken and Llama 3 have it, and knows the special tokens beside it.
#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "base/error.h"
#include "base/file.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/fingerprint.h"

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
  std::size_t number = 0;
  while (!content.empty()) {
    const std::size_t stop = content.find('\n');
    std::string_view text = content.substr(0, stop);
    content.remove_prefix(stop == std::string_view::npos ? content.size() : stop + 1);
    ++number;
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty()) continue;
    const RankLine line{file, number, text, limit};
    const std::string token = line.token();
    const std::int32_t rank = line.rank();
    if (ranks.has(rank)) line.refuse("the rank is taken by an earlier token");
    if (ranks.find(token) >= 0) line.refuse("the token has a rank already");
    ranks.add(rank, token);
  }
  if (ranks.count() == 0) fail_input("'{}' holds no tokens", file);
  if (const std::int32_t hole = ranks.first_hole(); hole >= 0) {
    fail_input(
        "'{}': no token has the rank {}, but others have ranks up to {}; is the file "
        "complete?",
        file, hole, ranks.size() - 1);
  }
  return ranks;
}

std::vector<AddedToken> cl100k_tokens() {
  return {{.content = "<|endoftext|>", .id = 100257},
          {.content = "<|fim_prefix|>", .id = 100258},
          {.content = "<|fim_middle|>", .id = 100259},
          {.content = "<|fim_suffix|>", .id = 100260},
          {.content = "<|endofprompt|>", .id = 100276}};
}

// Llama 3 has 256 special tokens after the ranks; most are reserved and numbered.
std::vector<AddedToken> llama3_tokens(std::int32_t first) {
  std::vector<AddedToken> tokens;
  int reserved = 0;
  for (int i = 0; i < 256; ++i) {
    std::string content;
    switch (i) {
      case 0:
        content = "<|begin_of_text|>";
        break;
      case 1:
        content = "<|end_of_text|>";
        break;
      case 6:
        content = "<|start_header_id|>";
        break;
      case 7:
        content = "<|end_header_id|>";
        break;
      case 9:
        content = "<|eot_id|>";
        break;
      default:
        content = fmt::format("<|reserved_special_token_{}|>", reserved++);
    }
    tokens.push_back({.content = content, .id = first + i});
  }
  return tokens;
}

}  // namespace

std::unique_ptr<Tokenizer> load_tiktoken(const std::string& model_file, bool special_text) {
  const std::string content = read_file(model_file, kMaxFile);
  Vocabulary ranks = read_ranks(model_file, content);
  const std::int32_t count = ranks.size();
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (ranks.find({&text, 1}) < 0) {
      fail_input("'{}' has no token for the single byte 0x{:02x}; it should have all 256",
                 model_file, byte);
    }
  }
  MergeTable merges = merges_of_ranks(ranks);
  ByteLevelParts parts{.bpe = ByteBpe(std::move(ranks), std::move(merges), true)};
  parts.pattern = count == 50256 ? SplitPattern::gpt2 : SplitPattern::cl100k;
  if (count == 50256 || count == 100256) {
    const std::int32_t eod = count == 50256 ? 50256 : 100257;
    parts.added = count == 50256 ? std::vector<AddedToken>{{.content = "<|endoftext|>", .id = eod}}
                                 : cl100k_tokens();
    parts.special = {.eod = eod, .bos = eod, .eos = eod};
  } else {
    parts.added = llama3_tokens(count);
    parts.special = {.eod = count + 1, .bos = count, .eos = count + 1};
    parts.prefix = count;
  }
  parts.special_text = special_text;
  parts.fingerprint = Fingerprint("tiktoken").add(content).add(special_text).digest();
  return std::make_unique<ByteLevelTokenizer>(std::move(parts));
}

}  // namespace trireme
