// A sentence ends with . ! ? (or a CJK counterpart) and its closing quotes and brackets, where
// white space and something that can begin a sentence follow. Full stops of abbreviations, initials
// and numbers do not end one.
#include "data/bert/sentences.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "tokenizer/utf8.h"

namespace trireme {
namespace {

// Lower case, without the last full stop. What follows a title or such belongs to the same
// sentence;
constexpr auto kTitles = std::to_array<std::string_view>(
    {"adm",  "approx", "brig", "capt", "cf",  "col",    "cpl", "dr",  "e.g", "gen",
     "gov",  "hon",    "i.e",  "lt",   "maj", "messrs", "mr",  "mrs", "ms",  "mt",
     "prof", "rep",    "rev",  "sen",  "sgt", "st",     "viz", "vs"});
// after these only a number does.
constexpr auto kNumbered = std::to_array<std::string_view>(
    {"apr", "art", "aug", "ch",  "dec", "eq",  "feb", "fig",  "figs", "jan",
     "no",  "nos", "nov", "oct", "pp",  "sec", "sep", "sept", "vol",  "vols"});
static_assert(std::ranges::is_sorted(kTitles) && std::ranges::is_sorted(kNumbered));

bool is_space(char32_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xA0 || c == 0x3000 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029;
}
bool is_wide_end(char32_t c) {
  return c == 0x3002 || c == 0xFF01 || c == 0xFF1F || c == 0xFF61;
}
bool is_end(char32_t c) {
  return c == '.' || c == '!' || c == '?' || c == 0x2026 || is_wide_end(c);
}
bool is_closing(char32_t c) {
  return c == '"' || c == '\'' || c == ')' || c == ']' || c == '}' || c == 0x2019 || c == 0x201D ||
         c == 0xBB || c == 0x300D || c == 0x300F || c == 0xFF09;
}
bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_ascii_lower(char32_t c) {
  return c >= 'a' && c <= 'z';
}

// Whether the word that ends at `stop` (a full stop) and is followed by `next` is an abbreviation
// or an initial.
bool is_abbreviation(std::string_view text, std::size_t stop, char32_t next) {
  std::size_t begin = stop;
  while (begin > 0 && (is_ascii_letter(text[begin - 1]) || text[begin - 1] == '.')) --begin;
  std::string word(text.substr(begin, stop - begin));
  if (word.empty() || word.size() > 6) return false;
  // An initial ("J."), or letters with stops ("U.S."), but not the pronoun.
  if (word.size() == 1) return word[0] >= 'A' && word[0] <= 'Z' && word[0] != 'I';
  if (word.size() >= 3 && word[1] == '.' && is_ascii_letter(word[0])) return true;
  for (char& c : word)
    c = static_cast<char>(c | 0x20);  // letters and stops have this bit or want it
  return std::ranges::binary_search(kTitles, std::string_view(word)) ||
         (next >= '0' && next <= '9' &&
          std::ranges::binary_search(kNumbered, std::string_view(word)));
}

// Reads characters of a text one after the other.
class Cursor {
 public:
  explicit Cursor(std::string_view text, std::size_t at = 0) : text_(text), at_(at) { decode(); }
  bool done() const { return at_ >= text_.size(); }
  std::size_t at() const { return at_; }
  char32_t value() const { return value_; }
  void advance() {
    at_ += length_;
    decode();
  }

 private:
  void decode() {
    if (done()) return;
    const DecodedChar c = decode_utf8(text_.data() + at_, text_.data() + text_.size());
    value_ = c.value;
    length_ = c.length;
  }
  std::string_view text_;
  std::size_t at_ = 0, length_ = 0;
  char32_t value_ = 0;
};

// Whether a sentence ends with the mark `mark` at `at`; `after` is the position after all marks and
// closing signs.
bool ends_sentence(std::string_view text, std::size_t at, char32_t mark, Cursor after) {
  if (is_wide_end(mark)) return true;
  if (after.done()) return true;
  if (!is_space(after.value())) return false;
  int line_ends = 0;
  for (; !after.done() && is_space(after.value()); after.advance())
    line_ends += after.value() == '\n';
  if (after.done() || line_ends >= 2) return true;
  if (is_ascii_lower(after.value())) return false;
  return mark != '.' || !is_abbreviation(text, at, after.value());
}

// The end of a sentence at the marks that begin at `cursor`, or npos. Moves past the marks.
std::size_t end_at_marks(std::string_view text, Cursor& cursor) {
  const std::size_t at = cursor.at();
  char32_t mark = cursor.value();
  for (; !cursor.done() && is_end(cursor.value()); cursor.advance()) mark = cursor.value();
  while (!cursor.done() && is_closing(cursor.value())) cursor.advance();
  return ends_sentence(text, at, mark, cursor) ? cursor.at() : text.npos;
}

}  // namespace

void split_sentences(std::string_view text, bool keep_space,
                     std::vector<std::string_view>& sentences) {
  sentences.clear();
  Cursor cursor(text);
  const auto skip_space = [&] {
    while (!cursor.done() && is_space(cursor.value())) cursor.advance();
  };
  skip_space();
  std::size_t begin = keep_space ? 0 : cursor.at();
  std::size_t last = begin;  // end of the last character that is not a space
  const auto emit = [&](std::size_t end) {
    if (last > begin)
      sentences.push_back(text.substr(begin, (keep_space ? cursor.at() : end) - begin));
    begin = last = cursor.at();
  };
  while (!cursor.done()) {
    if (is_end(cursor.value())) {
      const std::size_t end = end_at_marks(text, cursor);
      last = cursor.at();
      if (end == text.npos) continue;
      skip_space();
      emit(end);
    } else if (cursor.value() == '\n') {  // a blank line ends a sentence without a mark
      const std::size_t end = last;
      const std::size_t from = cursor.at();
      skip_space();
      const std::string_view gap = text.substr(from, cursor.at() - from);
      if (std::count(gap.begin(), gap.end(), '\n') >= 2) emit(end);
    } else {
      const bool space = is_space(cursor.value());
      cursor.advance();
      if (!space) last = cursor.at();
    }
  }
  emit(last);
}

}  // namespace trireme
