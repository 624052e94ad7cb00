// utf8proc behind a small interface.
#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "tokenizer/char_class.h"

namespace trireme {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

}  // namespace

bool is_control(char32_t c) {
  const auto cat = category(c);
  return cat == UTF8PROC_CATEGORY_CC || cat == UTF8PROC_CATEGORY_CF ||
         cat == UTF8PROC_CATEGORY_CS || cat == UTF8PROC_CATEGORY_CO;
}

bool is_punctuation(char32_t c) {
  const auto cat = category(c);
  return cat >= UTF8PROC_CATEGORY_PC && cat <= UTF8PROC_CATEGORY_PO;
}

bool is_bert_punctuation(char32_t c) {
  if (c >= 0x80) return is_punctuation(c);
  return c > ' ' && c < 0x7F && char_classes()[c] == CharClass::other;
}

bool is_nonspacing_mark(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_MN;
}

bool is_mark(char32_t c) {
  const auto cat = category(c);
  return cat >= UTF8PROC_CATEGORY_MN && cat <= UTF8PROC_CATEGORY_ME;
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

void append_lower(char32_t c, std::string& out) {
  // The one character whose lower case is two: I with a dot above.
  if (c == 0x130) {
    out += "i\u0307";
    return;
  }
  append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
}

void append_normal_form(NormalForm form, std::string_view text, std::string& out) {
  int options = UTF8PROC_STABLE;
  options |=
      form == NormalForm::nfc || form == NormalForm::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::nfkc || form == NormalForm::nfkd) options |= UTF8PROC_COMPAT;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  std::vector<utf8proc_int32_t> chars(text.size() + 16);
  const auto option = static_cast<utf8proc_option_t>(options);
  const auto room = [&] { return static_cast<utf8proc_ssize_t>(chars.size()); };
  utf8proc_ssize_t count = utf8proc_decompose(bytes, size, chars.data(), room(), option);
  if (count > room()) {
    chars.resize(static_cast<std::size_t>(count));
    count = utf8proc_decompose(bytes, size, chars.data(), room(), option);
  }
  if (count >= 0) count = utf8proc_normalize_utf32(chars.data(), count, option);
  if (count < 0) fail("cannot bring a text into a Unicode normal form: {}", utf8proc_errmsg(count));
  std::for_each(chars.begin(), chars.begin() + count,
                [&out](utf8proc_int32_t c) { append_utf8(static_cast<char32_t>(c), out); });
}

}  // namespace trireme
