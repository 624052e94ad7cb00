// Characters, byte fallback, unknown tokens; then merges.
#include "tokenizer/bpe/char_bpe.h"

#include <fmt/format.h>

#include <algorithm>

#include "tokenizer/bpe/piece_cache.h"
#include "tokenizer/utf8.h"

namespace trireme {
namespace {

constexpr std::string_view kMark = "\u2581";  // marks a space

// Position of the next mark after something else, from `from` > 0 on.
std::size_t next_word(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find(kMark, from); at != std::string_view::npos;
       at = text.find(kMark, at + kMark.size())) {
    if (!text.substr(0, at).ends_with(kMark)) return at;
  }
  return text.size();
}

bool holds_border(std::string_view token) {
  return !token.empty() && next_word(token, 1) < token.size();
}

}  // namespace

CharBpe::CharBpe(Vocabulary vocabulary, MergeTable merges, Options options)
    : vocabulary_(std::move(vocabulary)),
      merges_(std::move(merges)),
      options_(std::move(options)),
      whole_(static_cast<std::size_t>(vocabulary_.size())),
      serial_(next_tokenizer_serial()) {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
  }
  // A text may be cut before the mark of each word if no token reaches over such a border.
  cut_at_words_ = !options_.whole_pieces && options_.prefix.empty() && options_.suffix.empty() &&
                  vocabulary_.find(kMark) >= 0;
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < vocabulary_.size(); ++id) {
    if (!vocabulary_.has(id)) continue;
    const std::string_view token = vocabulary_.bytes(id);
    if (holds_border(token)) cut_at_words_ = false;
    ids.clear();
    append_merged(token, ids);
    whole_[static_cast<std::size_t>(id)] =
        options_.whole_pieces || (ids.size() == 1 && ids[0] == id);
  }
}

void CharBpe::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  while (cut_at_words_ && !piece.empty()) {
    const std::size_t end = next_word(piece, 1);
    encode_part(piece.substr(0, end), ids);
    piece.remove_prefix(end);
  }
  if (!piece.empty()) encode_part(piece, ids);
}

void CharBpe::encode_part(std::string_view part, std::vector<std::int32_t>& ids) const {
  if (!PieceCache::takes(part)) return append_part(part, ids);
  PieceCache& cache = PieceCache::of_this_thread(serial_);
  const auto found =
      cache.ids_of(part, part.data() + part.size(),
                   [&](std::vector<std::int32_t>& made) { append_part(part, made); });
  ids.insert(ids.end(), found.begin(), found.end());
}

void CharBpe::append_part(std::string_view part, std::vector<std::int32_t>& ids) const {
  const std::int32_t whole = vocabulary_.find(part);
  if (whole >= 0 && whole_[static_cast<std::size_t>(whole)]) return ids.push_back(whole);
  append_merged(part, ids);
}

bool CharBpe::append_bytes(std::string_view character, std::vector<std::int32_t>& ids) const {
  const auto id_of = [this](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  if (!std::all_of(character.begin(), character.end(), [&](char b) { return id_of(b) >= 0; })) {
    return false;
  }
  for (const char byte : character) ids.push_back(id_of(byte));
  return true;
}

void CharBpe::append_merged(std::string_view part, std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  const char* end = part.data() + part.size();
  // An unknown token is held back until a known one follows.
  bool held = false;
  const auto release = [&] {
    if (held) ids.push_back(options_.unknown);
    held = false;
  };
  const bool affixes = !options_.prefix.empty() || !options_.suffix.empty();
  std::string with_affixes;
  for (const char* p = part.data(); p < end;) {
    std::string_view character(p, decode_utf8(p, end).length);
    const bool first = p == part.data();
    p += character.size();
    if (affixes) {
      with_affixes = first ? "" : options_.prefix;
      with_affixes += character;
      if (p == end) with_affixes += options_.suffix;
      character = with_affixes;
    }
    const std::int32_t id = vocabulary_.find(character);
    if (id >= 0) {
      release();
      ids.push_back(id);
    } else if ((!options_.byte_fallback || !append_bytes(character, ids)) &&
               options_.unknown >= 0) {
      if (!options_.fuse_unknown) release();
      held = true;
    }
  }
  release();
  const std::size_t count = ids.size() - before;
  ids.resize(before + apply_merges(merges_, ids.data() + before, count));
}

}  // namespace trireme
