// The best path through all pieces of a text.
#include "tokenizer/sentencepiece/unigram.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <set>
#include <string>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace trireme {
namespace {

using Piece = SentencePieceProto::Piece;
using Type = SentencePieceProto::Type;

// Buffers that a thread keeps from text to text; the memory of longer ones is freed.
constexpr std::size_t kept_bytes = std::size_t{1} << 22;
constexpr float unknown_penalty = 10;

bool is_in_text(const Piece& piece) {
  return piece.type == Type::normal || piece.type == Type::user_defined;
}

bool is_certain(const SentencePieceProto& model) {
  if (model.kind != SentencePieceProto::Kind::unigram) return false;
  std::set<std::string_view> reserved;
  std::size_t bytes = 0;
  for (const Piece& piece : model.pieces) {
    if ((bytes += piece.text.size()) > PrefixSet::kMostBytes) return false;
    if (!is_in_text(piece) && piece.type != Type::unused) reserved.insert(piece.text);
  }
  return std::ranges::any_of(model.pieces,
                             [](const Piece& piece) { return piece.type == Type::normal; }) &&
         std::ranges::none_of(model.pieces, [&](const Piece& piece) {
           return is_in_text(piece) && (reserved.contains(piece.text) ||
                                        !is_valid_utf8(piece.text) || !std::isfinite(piece.score));
         });
}

// The last piece of the best path up to a place of the text.
struct Step {
  float total = 0;
  std::int32_t id = -1;
  std::uint32_t begin = 0;
  bool reached = false;
};

}  // namespace

std::unique_ptr<SentencePieceUnigram> SentencePieceUnigram::make(const SentencePieceProto& model) {
  if (!is_certain(model)) return nullptr;
  return std::unique_ptr<SentencePieceUnigram>(new SentencePieceUnigram(model));
}

SentencePieceUnigram::SentencePieceUnigram(const SentencePieceProto& model)
    : normalizer_(model), fallback_(model), scores_(model.pieces.size()) {
  // FLT_MIN as in the library, although scores are negative: user-defined symbols have its
  // multiples.
  float lowest = FLT_MAX, highest = FLT_MIN;
  for (const Piece& piece : model.pieces) {
    if (piece.type != Type::normal) continue;
    lowest = std::min(lowest, piece.score);
    highest = std::max(highest, piece.score);
  }
  unknown_score_ = lowest - unknown_penalty;
  for (std::size_t id = 0; id < scores_.size(); ++id) {
    const Piece& piece = model.pieces[id];
    if (!is_in_text(piece)) continue;
    pieces_.add(piece.text, static_cast<std::int32_t>(id));
    // User-defined symbols are meant to win against all pieces that could stand in their place.
    scores_[id] = piece.type == Type::normal
                      ? piece.score
                      : static_cast<float>(piece.text.size()) * highest - 0.1;
  }
}

void SentencePieceUnigram::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  thread_local std::string normal;
  thread_local std::vector<Step> steps;
  thread_local std::vector<std::size_t> ends;  // of the pieces, from the last one
  normalizer_.apply(text, normal);
  if (normal.size() > INT32_MAX)
    fail_input("a text of {} bytes is too long for a unigram model; 2 GiB is the limit",
               normal.size());
  steps.assign(normal.size() + 1, {});
  const auto reach = [&](std::size_t begin, std::size_t end, std::int32_t id, double total) {
    Step& step = steps[end];
    if (step.reached && total <= static_cast<double>(step.total)) return;
    step = {static_cast<float>(total), id, static_cast<std::uint32_t>(begin), true};
  };
  for (std::size_t at = 0; at < normal.size();) {
    const std::string_view rest = std::string_view(normal).substr(at);
    const std::size_t character = std::min(sentencepiece_char_length(rest.front()), rest.size());
    const float before = steps[at].total;
    bool known = false;
    pieces_.each_prefix(rest, [&](std::size_t length, std::int32_t id) {
      reach(at, at + length, id,
            scores_[static_cast<std::size_t>(id)] + static_cast<double>(before));
      known |= length == character;
    });
    if (!known) reach(at, at + character, fallback_.unknown, unknown_score_ + before);
    at += character;
  }
  ends.clear();
  for (std::size_t end = normal.size(); end > 0; end = steps[end].begin) ends.push_back(end);
  SentencePieceOutput output(ids, fallback_);
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    const Step& last = steps[*end];
    if (last.id == fallback_.unknown)
      output.add_unknown(std::string_view(normal).substr(last.begin, *end - last.begin));
    else
      output.add(last.id);
  }
  if (normal.size() > kept_bytes) {
    std::string().swap(normal);
    std::vector<Step>().swap(steps);
    std::vector<std::size_t>().swap(ends);
  }
}

}  // namespace trireme
