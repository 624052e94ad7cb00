// Wraps utf8proc.
#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "tokenizer/patterns/char_class.h"
#include "tokenizer/utf8.h"

namespace trireme {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

using Chars = std::vector<utf8proc_int32_t>;

utf8proc_ssize_t checked(utf8proc_ssize_t count) {
  if (count < 0) fail("cannot bring a text into a Unicode normal form: {}", utf8proc_errmsg(count));
  return count;
}

// The full decomposition of each character, marks in the order of the text. (The library's own
// function for texts also orders marks, in a time that is quadratic in their number.)
Chars decompose(std::string_view text, utf8proc_option_t options) {
  Chars chars;
  chars.reserve(text.size());
  std::array<utf8proc_int32_t, 32> parts;  // none has more than 18
  const char* end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const DecodedChar c = decode_utf8(p, end);
    p += c.length;
    int boundary = 0;
    const utf8proc_ssize_t count = checked(
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.value), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), options, &boundary));
    TRIREME_CHECK(static_cast<std::size_t>(count) <= parts.size());
    chars.insert(chars.end(), parts.begin(), parts.begin() + count);
  }
  return chars;
}

int combining_class(utf8proc_int32_t c) {
  return utf8proc_get_property(c)->combining_class;
}

// Sorts each run of marks by combining class; marks of one class keep their order.
void order_marks(Chars& chars) {
  const auto is_starter = [](utf8proc_int32_t c) { return combining_class(c) == 0; };
  for (auto at = chars.begin(); at != chars.end();) {
    const auto first = std::find_if_not(at, chars.end(), is_starter);
    at = std::find_if(first, chars.end(), is_starter);
    if (std::ranges::is_sorted(first, at, {}, combining_class)) continue;
    std::ranges::stable_sort(first, at, {}, combining_class);
  }
}

// Composes what can be composed. The library takes U+11A7, the character before the first trailing
// Hangul consonant, for such a consonant; as it begins a character and composes with nothing, what
// comes before it and after it is composed separately.
void compose(Chars& chars, utf8proc_option_t options) {
  constexpr utf8proc_int32_t hangul_trailing_base = 0x11A7;
  auto to = chars.begin();
  for (auto from = chars.begin(); from != chars.end();) {
    const auto end = std::find(from, chars.end(), hangul_trailing_base);
    const utf8proc_ssize_t count = checked(utf8proc_normalize_utf32(&*from, end - from, options));
    to = std::copy(from, from + count, to);
    from = end;
    if (from != chars.end()) *to++ = *from++;
  }
  chars.erase(to, chars.end());
}

// Decomposes, orders and composes everything.
void append_by_parts(NormalForm form, std::string_view text, std::string& out) {
  const bool composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
      (compatible ? UTF8PROC_COMPAT : 0));
  Chars chars = decompose(text, options);
  order_marks(chars);
  if (composed) compose(chars, options);
  for (const utf8proc_int32_t c : chars) append_utf8(static_cast<char32_t>(c), out);
}

// Characters that NFC leaves as they are, and that join nothing before them: what comes before one
// has a normal form of its own. Others may be of this kind too.
class NfcBorders {
 public:
  static const NfcBorders& all() {
    static const NfcBorders borders;
    return borders;
  }
  bool has(char32_t c) const { return c < kSize && borders_[c]; }

 private:
  static constexpr char32_t kSize = 0x30000;

  NfcBorders() {
    std::vector<char32_t> joining;
    for (char32_t c = 0; c < kSize; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      std::string text;
      append_utf8(c, text);
      const Chars parts =
          decompose(text, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE));
      bool stays = parts.size() == 1 && static_cast<char32_t>(parts[0]) == c;
      if (!stays) {
        for (std::size_t i = 1; i < parts.size(); ++i) {
          joining.push_back(static_cast<char32_t>(parts[i]));
        }
        std::string normal;
        append_by_parts(NormalForm::nfc, text, normal);
        stays = normal == text;
      }
      borders_[c] = stays && combining_class(static_cast<utf8proc_int32_t>(c)) == 0;
    }
    for (const char32_t c : joining) {
      if (c < kSize) borders_[c] = false;
    }
  }

  std::vector<bool> borders_ = std::vector<bool>(kSize);
};

// Takes apart only what may change: characters that are no borders, with the one before them.
void append_nfc(std::string_view text, std::string& out) {
  const NfcBorders& borders = NfcBorders::all();
  const char* const end = text.data() + text.size();
  const char* copied = text.data();  // all before it is in `out`
  const char* before = copied;       // the last border
  for (const char* p = copied; p < end;) {
    if (const std::size_t ascii = ascii_prefix(p, end); ascii > 0) {
      p += ascii;
      before = p - 1;
      continue;
    }
    DecodedChar c = decode_utf8(p, end);
    if (borders.has(c.value)) {
      before = p;
      p += c.length;
      continue;
    }
    do {
      p += c.length;
    } while (p < end && !borders.has((c = decode_utf8(p, end)).value));
    out.append(copied, before);
    append_by_parts(NormalForm::nfc, {before, static_cast<std::size_t>(p - before)}, out);
    copied = before = p;
  }
  out.append(copied, end);
}

bool is_control(char32_t c) {
  const auto cat = category(c);
  return cat == UTF8PROC_CATEGORY_CC || cat == UTF8PROC_CATEGORY_CF ||
         cat == UTF8PROC_CATEGORY_CS || cat == UTF8PROC_CATEGORY_CO;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return c > ' ' && c < 0x7F && char_classes()[c] == CharClass::other;
  const auto cat = category(c);
  return cat >= UTF8PROC_CATEGORY_PC && cat <= UTF8PROC_CATEGORY_PO;
}

bool is_nonspacing_mark(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_MN;
}

void append_lower(char32_t c, std::string& out) {
  // The one character whose lower case is two: I with a dot above.
  if (c == 0x130) {
    out += "i\u0307";
    return;
  }
  append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
}

}  // namespace

void append_title(char32_t c, std::string& out) {
  append_utf8(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))), out);
}

bool is_white_space(char32_t c) {
  return char_classes()[c] == CharClass::space;
}

bool is_cjk_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B820 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

void append_normal_form(NormalForm form, std::string_view text, std::string& out) {
  if (form == NormalForm::nfc) return append_nfc(text, out);
  append_by_parts(form, text, out);
}

const UnicodeRules newest_unicode{
    .is_control = is_control,
    .is_punctuation = is_punctuation,
    .is_nonspacing_mark = is_nonspacing_mark,
    .is_ideograph = is_cjk_ideograph,
    .append_lower = append_lower,
    .append_normal_form = append_normal_form,
};

}  // namespace trireme
