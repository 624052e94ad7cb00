// The table of merges, the cut into words, and the ids of what no piece covers.
#include "tokenizer/sentencepiece/bpe.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "tokenizer/utf8.h"

namespace trireme {
namespace {

using Piece = SentencePieceProto::Piece;
using Type = SentencePieceProto::Type;

constexpr std::string_view space = "\u2581";
// Buffer that a thread keeps from text to text; the memory of a longer one is freed.
constexpr std::size_t kept_bytes = std::size_t{1} << 22;

std::string_view take_character(std::string_view& text) {
  const std::string_view character =
      text.substr(0, std::min(text.size(), sentencepiece_char_length(text.front())));
  text.remove_prefix(character.size());
  return character;
}

bool is_one_character(std::string_view text) {
  return !text.empty() && take_character(text).size() > 0 && text.empty();
}

// End of the first word of `text` if each word begins with its spaces.
std::size_t end_before_spaces(std::string_view text) {
  std::size_t at = 0;
  while (text.substr(at).starts_with(space)) at += space.size();
  return std::min(text.find(space, at), text.size());
}

// The same if each word ends with its spaces.
std::size_t end_after_spaces(std::string_view text) {
  std::size_t at = std::min(text.find(space), text.size());
  while (text.substr(at).starts_with(space)) at += space.size();
  return at;
}

bool is_certain(const SentencePieceProto& model) {
  if (model.kind != SentencePieceProto::Kind::bpe) return false;
  std::set<std::string_view> reserved;
  std::size_t bytes = 0;
  for (const Piece& piece : model.pieces) {
    if ((bytes += piece.text.size()) > PrefixSet::kMostBytes) return false;
    if (piece.type == Type::unused) return false;
    if (piece.type == Type::normal || piece.type == Type::user_defined) continue;
    if (is_one_character(piece.text)) return false;
    reserved.insert(piece.text);
  }
  return std::ranges::none_of(model.pieces, [&](const Piece& piece) {
    const bool reaches_text = piece.type == Type::normal || piece.type == Type::user_defined;
    return reaches_text &&
           (reserved.contains(piece.text) || !is_valid_utf8(piece.text) || std::isnan(piece.score));
  });
}

}  // namespace

std::unique_ptr<SentencePieceBpe> SentencePieceBpe::make(const SentencePieceProto& model) {
  if (!is_certain(model)) return nullptr;
  return std::unique_ptr<SentencePieceBpe>(new SentencePieceBpe(model));
}

SentencePieceBpe::SentencePieceBpe(const SentencePieceProto& model)
    : normalizer_(model),
      fallback_(model),
      pieces_(static_cast<std::int32_t>(model.pieces.size())),
      serial_(next_tokenizer_serial()) {
  ascii_.fill(-1);
  for (std::int32_t id = 0; id < pieces_; ++id) {
    const Piece& piece = model.pieces[static_cast<std::size_t>(id)];
    const bool in_text = piece.type == Type::normal || piece.type == Type::user_defined;
    in_text ? symbols_.add(id, piece.text) : symbols_.add_hidden(id, piece.text);
  }
  add_merges(model);
  for (std::size_t c = 0; c < ascii_.size(); ++c) {
    const char byte = static_cast<char>(c);
    ascii_[c] = symbols_.find({&byte, 1});
  }
  choose_words(model);
  whole_.resize(model.pieces.size());
  std::vector<std::int32_t> ids;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type != Type::normal) continue;
    ids.clear();
    SentencePieceOutput output(ids, fallback_);
    merge_word(model.pieces[id].text, output);
    whole_[id] = ids.size() == 1 && ids[0] == static_cast<std::int32_t>(id);
  }
}

std::int32_t SentencePieceBpe::add_symbol(std::string_view text) {
  const std::int32_t found = symbols_.find(text);
  if (found >= 0) return found;
  const std::int32_t id = symbols_.size();
  symbols_.add(id, text);
  return id;
}

// A piece can be merged from any two symbols that it is made of. User-defined pieces are never
// merged: where the text spells one, it is found before any merge.
void SentencePieceBpe::add_merges(const SentencePieceProto& model) {
  std::vector<float> scores;
  for (const Piece& piece : model.pieces) {
    if (piece.type == Type::normal) scores.push_back(piece.score);
  }
  std::ranges::sort(scores, std::greater{});
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  for (std::int32_t id = 0; id < pieces_; ++id) {
    const Piece& piece = model.pieces[static_cast<std::size_t>(id)];
    if (piece.type != Type::normal || is_one_character(piece.text)) continue;
    const auto rank = static_cast<std::uint32_t>(
        std::ranges::lower_bound(scores, piece.score, std::greater{}) - scores.begin());
    const auto symbol = [&](std::string_view text) {
      return is_one_character(text) ? add_symbol(text) : symbols_.find(text);
    };
    std::string_view rest = piece.text;
    for (take_character(rest); !rest.empty(); take_character(rest)) {
      const std::string_view head = piece.text.substr(0, piece.text.size() - rest.size());
      const std::int32_t left = symbol(head), right = symbol(rest);
      if (left >= 0 && right >= 0) merges_.add(left, right, {rank, id});
    }
  }
}

// Words begin or end with their spaces, whichever leaves fewer pieces that reach over their ends.
void SentencePieceBpe::choose_words(const SentencePieceProto& model) {
  const auto crossing = [&](WordEnd end) {
    std::vector<std::string_view> found;
    for (const Piece& piece : model.pieces) {
      if (piece.type == Type::normal && end(piece.text) < piece.text.size()) {
        found.push_back(piece.text);
      }
    }
    return found;
  };
  word_end_ = crossing(end_before_spaces).size() <= crossing(end_after_spaces).size()
                  ? end_before_spaces
                  : end_after_spaces;
  for (const std::string_view piece : crossing(word_end_)) crossing_.add(piece, 0);
}

void SentencePieceBpe::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  thread_local std::string normal;
  normalizer_.apply(text, normal);
  SentencePieceOutput output(ids, fallback_);
  PieceCache& cache = PieceCache::of_this_thread(serial_);
  const PrefixSet& user_defined = normalizer_.user_defined();
  std::string_view rest = normal;
  const char* begin = rest.data();  // of what is still to be encoded
  const auto encode_up_to = [&](const char* end) {
    encode_stretch({begin, static_cast<std::size_t>(end - begin)}, cache, output);
  };
  while (!user_defined.empty() && !rest.empty()) {
    const PrefixSet::Found found = user_defined.longest_prefix(rest);
    if (found.length == 0) {
      take_character(rest);
      continue;
    }
    encode_up_to(rest.data());
    output.add(found.value);
    rest.remove_prefix(found.length);
    begin = rest.data();
  }
  encode_up_to(normal.data() + normal.size());
  if (normal.capacity() > kept_bytes) std::string().swap(normal);
}

void SentencePieceBpe::encode_stretch(std::string_view stretch, PieceCache& cache,
                                      SentencePieceOutput& output) const {
  const char* const end = stretch.data() + stretch.size();
  while (!stretch.empty()) {
    const std::string_view word = take_word(stretch);
    if (!PieceCache::takes(word)) {
      merge_word(word, output);
      continue;
    }
    const auto ids = cache.ids_of(word, end, [&](std::vector<std::int32_t>& made) {
      SentencePieceOutput found(made, fallback_);
      merge_word(word, found);
    });
    for (const std::int32_t id : ids) output.add(id);
  }
}

// Takes words up to an end over which no piece reaches that the stretch spells.
std::string_view SentencePieceBpe::take_word(std::string_view& stretch) const {
  std::size_t end = word_end_(stretch);
  for (std::size_t at = 0; at < end && !crossing_.empty();
       at += sentencepiece_char_length(stretch[at])) {
    const std::size_t reached = at + crossing_.longest_prefix(stretch.substr(at)).length;
    while (end < reached) end += word_end_(stretch.substr(end));
  }
  const std::string_view word = stretch.substr(0, end);
  stretch.remove_prefix(end);
  return word;
}

std::int32_t SentencePieceBpe::symbol_of(std::string_view character) const {
  const auto byte = static_cast<unsigned char>(character.front());
  return byte < ascii_.size() ? ascii_[byte] : symbols_.find(character);
}

void SentencePieceBpe::merge_word(std::string_view word, SentencePieceOutput& output) const {
  thread_local std::vector<std::int32_t> symbols;
  const auto add_merged = [&] {
    const std::size_t count = apply_merges(merges_, symbols.data(), symbols.size());
    for (std::size_t i = 0; i < count; ++i) {
      symbols[i] < pieces_ ? output.add(symbols[i])
                           : output.add_unknown(symbols_.bytes(symbols[i]));
    }
    symbols.clear();
  };
  symbols.clear();
  if (!whole_.empty()) {
    const std::int32_t id = symbols_.find(word);
    if (id >= 0 && id < pieces_ && whole_[static_cast<std::size_t>(id)]) return output.add(id);
  }
  while (!word.empty()) {
    const std::string_view character = take_character(word);
    const std::int32_t symbol = symbol_of(character);
    if (symbol >= 0) {
      symbols.push_back(symbol);
    } else {  // no piece holds it
      add_merged();
      output.add_unknown(character);
    }
  }
  add_merged();
  if (symbols.capacity() > kept_bytes / sizeof symbols[0])
    std::vector<std::int32_t>().swap(symbols);
}

}  // namespace trireme
