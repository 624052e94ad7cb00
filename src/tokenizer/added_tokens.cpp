// A trie over the added tokens, walked from every byte that begins one.
#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "tokenizer/patterns/regex.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace trireme {
namespace {

// The character that ends just before `at` > 0 in valid UTF-8.
char32_t char_before(std::string_view text, std::size_t at) {
  std::size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && (text[begin] & 0xC0) == 0x80) --begin;
  return decode_utf8(text.data() + begin, text.data() + at).value;
}

char32_t char_at(std::string_view text, std::size_t at) {
  return decode_utf8(text.data() + at, text.data() + text.size()).value;
}

bool is_word(char32_t c) {
  static const Regex word(std::string("[") + kWordCharacters + "]", "added tokens");
  std::string text;
  append_utf8(c, text);
  bool found = false;
  word.for_each_match(text, [&](std::size_t, std::size_t) { found = true; });
  return found;
}

bool is_alone(std::string_view text, std::size_t begin, std::size_t end) {
  return (begin == 0 || !is_word(char_before(text, begin))) &&
         (end == text.size() || !is_word(char_at(text, end)));
}

std::size_t length_of(char32_t c) {
  return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

std::size_t without_space_before(std::string_view text, std::size_t begin, std::size_t least) {
  while (begin > least) {
    const char32_t c = char_before(text, begin);
    if (!is_white_space(c)) break;
    begin -= length_of(c);
  }
  return begin;
}

std::size_t without_space_after(std::string_view text, std::size_t end) {
  while (end < text.size()) {
    const char32_t c = char_at(text, end);
    if (!is_white_space(c)) break;
    end += length_of(c);
  }
  return end;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, bool special_text)
    : tokens_(std::move(tokens)), special_text_(special_text), trie_(1) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    if (content.empty()) continue;
    starts_[static_cast<unsigned char>(content[0])] = true;
    std::int32_t node = 0;
    for (const char byte : content) {
      std::int32_t child = step(node, byte);
      if (child < 0) {
        child = static_cast<std::int32_t>(trie_.size());
        trie_.emplace_back();
        trie_[static_cast<std::size_t>(node)].next.emplace_back(byte, child);
      }
      node = child;
    }
    std::int32_t& token = trie_[static_cast<std::size_t>(node)].token;
    if (token < 0) token = static_cast<std::int32_t>(i);
  }
  if (std::count(starts_.begin(), starts_.end(), true) == 1) {
    only_start_ =
        static_cast<int>(std::find(starts_.begin(), starts_.end(), true) - starts_.begin());
  }
}

std::int32_t AddedTokens::step(std::int32_t node, char byte) const {
  for (const auto& [label, child] : trie_[static_cast<std::size_t>(node)].next) {
    if (label == static_cast<unsigned char>(byte)) return child;
  }
  return -1;
}

std::size_t AddedTokens::next_start(std::string_view text, std::size_t from) const {
  if (only_start_ >= 0) {
    const void* found = from < text.size()
                            ? std::memchr(text.data() + from, only_start_, text.size() - from)
                            : nullptr;
    return found ? static_cast<std::size_t>(static_cast<const char*>(found) - text.data())
                 : text.size();
  }
  while (from < text.size() && !starts_[static_cast<unsigned char>(text[from])]) ++from;
  return from;
}

std::optional<AddedTokens::Found> AddedTokens::find(std::string_view text, std::size_t from) const {
  for (std::size_t begin = next_start(text, from); begin < text.size();
       begin = next_start(text, begin + 1)) {
    std::optional<Found> longest;
    std::int32_t node = 0;
    for (std::size_t i = begin; i < text.size() && (node = step(node, text[i])) >= 0; ++i) {
      const std::int32_t token = trie_[static_cast<std::size_t>(node)].token;
      if (token >= 0) longest = {begin, i + 1, &tokens_[static_cast<std::size_t>(token)]};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

void AddedTokens::cut(std::string_view text, const std::function<void(std::string_view)>& on_text,
                      const std::function<void(const AddedToken&)>& on_token) const {
  std::size_t done = 0;  // all before it has been reported
  std::size_t from = 0;
  std::size_t space_end = 0;  // of the white space that a token took along after it
  while (const auto found = tokens_.empty() ? std::nullopt : find(text, from)) {
    auto [begin, end, token] = *found;
    from = end;
    if (token->special && !special_text_) continue;
    if (token->single_word && !is_alone(text, begin, end)) continue;
    // White space that an earlier token took along cannot be taken again; a token that consists of
    // it is then left out.
    if (token->lstrip) begin = std::max(without_space_before(text, begin, done), done);
    if (token->rstrip) {
      if (end >= space_end) space_end = without_space_after(text, end);
      end = space_end;
    }
    if (begin >= end) continue;
    if (done < begin) on_text(text.substr(done, begin - done));
    on_token(*token);
    done = end;
  }
  if (done < text.size()) on_text(text.substr(done));
}

}  // namespace trireme
