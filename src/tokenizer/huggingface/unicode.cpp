// The tables that make_hf_unicode.py took from the library, spread out to one byte per character.
#include "tokenizer/huggingface/unicode.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "tokenizer/utf8.h"

namespace trireme {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};
struct Offset {
  char32_t first;
  char32_t last;
  std::int32_t lower;
};

namespace table {
#include "tokenizer/huggingface/unicode.inc"
}  // namespace table

// Bits of a character's byte.
enum Kind : std::uint8_t {
  control = 1,
  nonspacing_mark = 2,
  mark = 4,
  punctuation = 8,
  number = 16,
  left_alone = 32,  // by normal forms: too young
  young_letter = 64,
};

// Static storage: pages of code points that are nothing of all this are never touched.
std::array<std::uint8_t, 0x110000> kinds;

template <class Ranges>
void enter(const Ranges& ranges, Kind kind) {
  for (const auto& range : ranges) {
    for (char32_t c = range.first; c <= range.last; ++c) kinds[c] |= kind;
  }
}

bool is(Kind kind, char32_t c) {
  static const bool entered = [] {
    enter(table::control, control);
    enter(table::nonspacing_marks, nonspacing_mark);
    enter(table::marks, mark);
    enter(table::punctuation, punctuation);
    enter(table::numbers, number);
    enter(table::left_alone, left_alone);
    enter(table::young_lower, young_letter);
    return true;
  }();
  return entered && (kinds[c] & kind) != 0;
}

bool is_ideograph(char32_t c) {
  return is_cjk_ideograph(c) && (c < 0x2B820 || c > 0x2B91F);
}

void append_hf_lower(char32_t c, std::string& out) {
  if (!is(young_letter, c)) return newest_unicode.append_lower(c, out);
  const auto* found = std::ranges::find_if(table::young_lower,
                                           [c](const Offset& offset) { return c <= offset.last; });
  append_utf8(c + static_cast<char32_t>(found->lower), out);
}

// A character that is too young has no decomposition, composes with nothing and is no mark, so that
// what comes before it and after it has normal forms of its own.
void append_hf_normal_form(NormalForm form, std::string_view text, std::string& out) {
  const char* const end = text.data() + text.size();
  const char* begin = text.data();  // of what is still to be appended
  const auto append_up_to = [&](const char* to) {
    if (begin < to) append_normal_form(form, {begin, static_cast<std::size_t>(to - begin)}, out);
  };
  for (const char* p = begin; p < end;) {
    p += ascii_prefix(p, end);
    if (p == end) break;
    const DecodedChar c = decode_utf8(p, end);
    if (is(left_alone, c.value)) {
      append_up_to(p);
      out.append(p, c.length);
      begin = p + c.length;
    }
    p += c.length;
  }
  append_up_to(end);
}

}  // namespace

bool is_hf_mark(char32_t c) {
  return is(mark, c);
}

bool is_hf_number(char32_t c) {
  return is(number, c);
}

const UnicodeRules hf_unicode{
    .is_control = [](char32_t c) { return is(control, c); },
    .is_punctuation = [](char32_t c) { return is(punctuation, c); },
    .is_nonspacing_mark = [](char32_t c) { return is(nonspacing_mark, c); },
    .is_ideograph = is_ideograph,
    .append_lower = append_hf_lower,
    .append_normal_form = append_hf_normal_form,
};

}  // namespace trireme
