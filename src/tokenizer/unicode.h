// Properties of characters and normal forms that normalizers need (utf8proc).
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// General category Cc, Cf, Cs or Co: the characters that BERT calls control characters, tab and
// line ends included.
bool is_control(char32_t c);
// General category P*.
bool is_punctuation(char32_t c);
// P* or any visible ASCII character that is neither letter nor digit.
bool is_bert_punctuation(char32_t c);
// General category Mn.
bool is_nonspacing_mark(char32_t c);
// General category M*.
bool is_mark(char32_t c);
// The White_Space property.
bool is_white_space(char32_t c);
// The blocks of ideographs round which BERT puts spaces.
bool is_cjk_ideograph(char32_t c);

// Appends the lower-case form of one character, without regard to its context.
void append_lower(char32_t c, std::string& out);

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// Appends `text`, valid UTF-8, in a Unicode normal form.
void append_normal_form(NormalForm form, std::string_view text, std::string& out);

}  // namespace trireme
