// Each pre-tokenizer of a tokenizer.json as a small class.
#include "tokenizer/huggingface/pre_tokenizer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "tokenizer/bpe/byte_alphabet.h"
#include "tokenizer/huggingface/pattern.h"
#include "tokenizer/huggingface/unicode.h"
#include "tokenizer/wordpiece/bert_text.h"

namespace trireme {
namespace {

using Made = std::unique_ptr<PreTokenizer>;

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

class Sequence : public PreTokenizer {
 public:
  Sequence(const JsonPlace& place, bool spell) {
    const JsonPlace parts = place.at("pretokenizers");
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (Made part = make_pre_tokenizer(parts.at(i), spell)) parts_.push_back(std::move(part));
    }
  }
  void cut(std::string_view text, std::size_t from_first, const Emit& emit) const override {
    cut_from(0, text, from_first, emit);
  }

 private:
  void cut_from(std::size_t part, std::string_view text, std::size_t from_first,
                const Emit& emit) const {
    if (part == parts_.size()) return emit(text, from_first);
    parts_[part]->cut(text, from_first, [&](std::string_view piece, std::size_t piece_from_first) {
      if (!piece.empty()) cut_from(part + 1, piece, piece_from_first, emit);
    });
  }

  std::vector<Made> parts_;
};

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(const JsonPlace& place, bool spell)
      : add_prefix_space_(place.flag_or("add_prefix_space", true)),
        use_regex_(place.flag_or("use_regex", true)),
        spell_(spell) {}

  void cut(std::string_view text, std::size_t from_first, const Emit& emit) const override {
    std::string spaced;
    if (add_prefix_space_ && !text.starts_with(' ')) {
      spaced = " " + std::string(text);
      text = spaced;
      if (from_first > 0) ++from_first;
    }
    if (!use_regex_) return finish(text, from_first, emit);
    split<SplitPattern::gpt2>(
        text.data(), text.data() + text.size(), [&](const char* begin, const char* end) {
          finish({begin, static_cast<std::size_t>(end - begin)},
                 from_first_after(static_cast<std::size_t>(begin - text.data()), from_first), emit);
        });
  }

 private:
  void finish(std::string_view piece, std::size_t from_first, const Emit& emit) const {
    if (!spell_) return emit(piece, from_first);
    emit(spell_bytes(piece), spell_bytes(piece.substr(0, from_first)).size());
  }

  bool add_prefix_space_;
  bool use_regex_;
  bool spell_;
};

// Treatment of the matches of a pattern.
enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

Behavior behavior_of(const JsonPlace& place, std::string_view absent) {
  const std::string name = place.text_or("behavior", absent);
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  place.refuse(fmt::format("has an unknown behavior '{}'", name));
}

class Split : public PreTokenizer {
 public:
  Split(HfPattern pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void cut(std::string_view text, std::size_t from_first, const Emit& emit) const override {
    std::vector<Part> parts;
    pattern_.cut(text, [&](std::size_t begin, std::size_t end, bool matches) {
      parts.push_back({begin, end, matches != invert_});
    });
    if (behavior_ == Behavior::merged_with_next) {
      merge_matches_with_next(parts);
    } else {
      merge_with_previous(parts);
    }
    for (const Part& part : parts) {
      if (behavior_ == Behavior::removed && part.matches) continue;
      emit(text.substr(part.begin, part.end - part.begin),
           from_first_after(part.begin, from_first));
    }
  }

 private:
  struct Part {
    std::size_t begin;
    std::size_t end;
    bool matches;
  };

  void merge_with_previous(std::vector<Part>& parts) const {
    if (behavior_ == Behavior::removed || behavior_ == Behavior::isolated) return;
    std::size_t out = 0;
    bool previous = false;
    for (const Part& part : parts) {
      const bool joins =
          behavior_ == Behavior::contiguous ? part.matches == previous : part.matches && !previous;
      if (joins && out > 0) {
        parts[out - 1].end = part.end;
      } else {
        parts[out++] = part;
      }
      previous = part.matches;
    }
    parts.resize(out);
  }

  static void merge_matches_with_next(std::vector<Part>& parts) {
    std::size_t out = parts.size();
    bool next = false;
    for (std::size_t i = parts.size(); i-- > 0;) {
      const Part part = parts[i];
      if (part.matches && !next && out < parts.size()) {
        parts[out].begin = part.begin;
      } else {
        parts[--out] = part;
      }
      next = part.matches;
    }
    parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(out));
  }

  HfPattern pattern_;
  Behavior behavior_;
  bool invert_;
};

Made make_split(const JsonPlace& place) {
  return std::make_unique<Split>(HfPattern(place.at("pattern")), behavior_of(place, "Isolated"),
                                 place.flag_or("invert", false));
}

Made make_delimiter_split(const JsonPlace& place) {
  const std::string& delimiter = place.at("delimiter").text();
  if (delimiter.empty()) place.refuse("has an empty delimiter");
  return std::make_unique<Split>(HfPattern::literal(delimiter), Behavior::removed, false);
}

class Bert : public PreTokenizer {
 public:
  void cut(std::string_view text, std::size_t from_first, const Emit& emit) const override {
    split_bert_words(text, hf_unicode, [&](std::string_view word) {
      emit(word, from_first_after(static_cast<std::size_t>(word.data() - text.data()), from_first));
    });
  }
};

class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(const JsonPlace& place)
      : mark_(place.text_or("replacement", "\u2581")), split_(place.flag_or("split", true)) {
    // Older files say only whether to add a space in front.
    const std::string absent = place.flag_or("add_prefix_space", true) ? "always" : "never";
    const std::string scheme = place.text_or("prepend_scheme", absent);
    if (scheme != "always" && scheme != "first" && scheme != "never") {
      place.refuse(fmt::format("has an unknown prepend_scheme '{}'", scheme));
    }
    if (mark_.empty() ||
        decode_utf8(mark_.data(), mark_.data() + mark_.size()).length != mark_.size()) {
      place.refuse(fmt::format("has the replacement '{}', which is not a single character", mark_));
    }
    always_ = scheme == "always";
    first_ = scheme == "first";
  }

  void cut(std::string_view text, std::size_t from_first, const Emit& emit) const override {
    const std::string start = with_marks(text.substr(0, from_first));
    std::string marked = with_marks(text);
    from_first = start.size();
    if ((always_ || (first_ && from_first > 0)) && !marked.starts_with(mark_)) {
      marked.insert(0, mark_);
      if (from_first > 0) from_first += mark_.size();
    }
    if (!split_) return emit(marked, from_first);
    const std::string_view all = marked;
    for (std::size_t begin = 0; begin < all.size();) {
      const std::size_t end = std::min(all.find(mark_, begin + 1), all.size());
      emit(all.substr(begin, end - begin), from_first_after(begin, from_first));
      begin = end;
    }
  }

 private:
  std::string with_marks(std::string_view text) const {
    std::string out;
    for (const char byte : text) {
      if (byte == ' ') {
        out += mark_;
      } else {
        out.push_back(byte);
      }
    }
    return out;
  }

  std::string mark_;
  bool split_;
  bool always_ = false;
  bool first_ = false;
};

}  // namespace

Made make_pre_tokenizer(const JsonPlace& place, bool spell) {
  if (place.is_null()) return nullptr;
  const std::string& type = place.at("type").text();
  if (type == "Sequence") return std::make_unique<Sequence>(place, spell);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>(place, spell);
  if (type == "Split") return make_split(place);
  if (type == "BertPreTokenizer") return std::make_unique<Bert>();
  if (type == "Metaspace") return std::make_unique<Metaspace>(place);
  if (type == "Whitespace") {
    const std::string words = fmt::format("[{0}]+|[^{0}\\s]+", kWordCharacters);
    return std::make_unique<Split>(HfPattern(words, place.name()), Behavior::removed, true);
  }
  if (type == "WhitespaceSplit") {
    return std::make_unique<Split>(HfPattern(is_white_space), Behavior::removed, false);
  }
  if (type == "Digits") {
    const bool individual = place.flag_or("individual_digits", false);
    return std::make_unique<Split>(HfPattern(is_hf_number),
                                   individual ? Behavior::isolated : Behavior::contiguous, false);
  }
  if (type == "Punctuation") {
    return std::make_unique<Split>(HfPattern(hf_unicode.is_punctuation),
                                   behavior_of(place, "Isolated"), false);
  }
  if (type == "CharDelimiterSplit") return make_delimiter_split(place);
  place.refuse(
      fmt::format("is of type '{}', which is not supported; supported are Sequence, ByteLevel, "
                  "Split, BertPreTokenizer, Metaspace, Whitespace, WhitespaceSplit, Digits, "
                  "Punctuation and CharDelimiterSplit",
                  type));
}

namespace {

// The parts of a pre-tokenizer in order, those of sequences within sequences too.
void collect_parts(const JsonPlace& place, std::vector<JsonPlace>& parts) {
  if (place.is_null()) return;
  if (place.at("type").text() != "Sequence") return parts.push_back(place);
  const JsonPlace members = place.at("pretokenizers");
  for (std::size_t i = 0; i < members.size(); ++i) collect_parts(members.at(i), parts);
}

}  // namespace

ByteLevelPlace place_of_byte_level(const JsonPlace& place) {
  std::vector<JsonPlace> parts;
  collect_parts(place, parts);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].at("type").text() != "ByteLevel") continue;
    return i + 1 == parts.size() ? ByteLevelPlace::last : ByteLevelPlace::earlier;
  }
  return ByteLevelPlace::nowhere;
}

bool cuts_before_first_metaspace(const JsonPlace& place) {
  std::vector<JsonPlace> parts;
  collect_parts(place, parts);
  return std::any_of(parts.begin() + !parts.empty(), parts.end(), [](const JsonPlace& part) {
    return part.text_or("prepend_scheme", "") == "first";
  });
}

namespace {

// ByteLevel that only spells, or also splits by its expression.
bool is_plain_byte_level(const JsonPlace& place, bool regex) {
  return place.text_or("type", "") == "ByteLevel" && !place.flag_or("add_prefix_space", true) &&
         place.flag_or("use_regex", true) == regex;
}

// The expression of a Split that isolates its matches; empty for others.
std::string isolated_regex(const JsonPlace& place) {
  if (place.text_or("type", "") != "Split" || place.text_or("behavior", "") != "Isolated" ||
      place.flag_or("invert", false) || !place.has("pattern")) {
    return "";
  }
  return place.at("pattern").text_or("Regex", "");
}

// The parts of a Sequence that ends with a ByteLevel which only spells; empty for others.
std::vector<JsonPlace> parts_before_byte_level(const JsonPlace& place) {
  std::vector<JsonPlace> parts;
  if (place.text_or("type", "") != "Sequence") return parts;
  const JsonPlace members = place.at("pretokenizers");
  for (std::size_t i = 0; i < members.size(); ++i) parts.push_back(members.at(i));
  if (parts.empty() || !is_plain_byte_level(parts.back(), false)) return {};
  parts.pop_back();
  return parts;
}

}  // namespace

std::optional<SplitPattern> known_split(const JsonPlace& place) {
  if (!place.has("type")) return std::nullopt;
  if (is_plain_byte_level(place, true)) return SplitPattern::gpt2;
  const std::vector<JsonPlace> parts = parts_before_byte_level(place);
  if (parts.size() != 1) return std::nullopt;
  const std::string pattern = isolated_regex(parts[0]);
  if (pattern == kGpt2Pattern) return SplitPattern::gpt2;
  if (pattern == kLlama3Pattern) return SplitPattern::cl100k;
  if (pattern == kQwen2Pattern) return SplitPattern::qwen2;
  return std::nullopt;
}

std::vector<Regex> isolating_cuts(const JsonPlace& place) {
  std::vector<Regex> cuts;
  if (!place.has("type")) return cuts;
  for (const JsonPlace& part : parts_before_byte_level(place)) {
    const std::string pattern = isolated_regex(part);
    if (pattern.empty()) return {};
    cuts.emplace_back(pattern, part.at("pattern").name());
  }
  return cuts;
}

}  // namespace trireme
