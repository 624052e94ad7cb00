// Greedy longest match, with a cache of whole words.
#include "tokenizer/wordpiece/wordpiece.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tokenizer/bpe/piece_cache.h"

namespace trireme {

WordPiece::WordPiece(Vocabulary vocabulary, Options options, const std::string& file)
    : vocabulary_(std::move(vocabulary)),
      options_(std::move(options)),
      unknown_(vocabulary_.find(options_.unknown)),
      serial_(next_tokenizer_serial()) {
  if (unknown_ < 0) {
    fail_input("'{}' has no token '{}', which stands for unknown words", file, options_.unknown);
  }
}

void WordPiece::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (!PieceCache::takes(word)) return append(word, ids);
  PieceCache& cache = PieceCache::of_this_thread(serial_);
  const auto found = cache.ids_of(word, word.data() + word.size(),
                                  [&](std::vector<std::int32_t>& made) { append(word, made); });
  ids.insert(ids.end(), found.begin(), found.end());
}

void WordPiece::append(std::string_view word, std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  if (spell(word, ids)) return;
  ids.resize(before);
  ids.push_back(unknown_);
}

bool WordPiece::spell(std::string_view word, std::vector<std::int32_t>& ids) const {
  const auto begins_character = [](char byte) { return (byte & 0xC0) != 0x80; };
  const auto characters = std::count_if(word.begin(), word.end(), begins_character);
  if (static_cast<std::size_t>(characters) > options_.max_characters) return false;
  // The word with space for the prefix before any of its positions, over what was matched already.
  const std::string& prefix = options_.prefix;
  std::string buffer = prefix + std::string(word);
  std::size_t start = prefix.size();
  while (start < buffer.size()) {
    std::size_t begin = start;
    if (start > prefix.size()) {
      begin = start - prefix.size();
      buffer.replace(begin, prefix.size(), prefix);
    }
    std::size_t end = std::min(buffer.size(), begin + vocabulary_.longest());
    std::int32_t found = -1;
    for (; end > start; --end) {
      if (end < buffer.size() && !begins_character(buffer[end])) continue;
      found = vocabulary_.find(std::string_view(buffer).substr(begin, end - begin));
      if (found >= 0) break;
    }
    if (found < 0) return false;
    ids.push_back(found);
    start = end;
  }
  return true;
}

void clean_up_spaces(std::string& text) {
  static constexpr std::pair<std::string_view, std::string_view> kReplacements[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kReplacements) {
    for (std::size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
}

std::string join_wordpieces(std::span<const std::string> tokens, std::string_view prefix,
                            bool clean_up) {
  std::string out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string token = tokens[i];
    if (i > 0 && token.starts_with(prefix)) {
      token.erase(0, prefix.size());
    } else if (i > 0) {
      token.insert(token.begin(), ' ');
    }
    // Token by token, as the reference does: a space is cleaned only at the start of a token.
    if (clean_up) clean_up_spaces(token);
    out += token;
  }
  return out;
}

}  // namespace trireme
