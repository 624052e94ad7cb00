// Properties of characters and normal forms that normalizers need (utf8proc).
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// The White_Space property.
bool is_white_space(char32_t c);
// The blocks of ideographs around which BERT puts spaces.
bool is_cjk_ideograph(char32_t c);

// Appends the character that stands for it at the beginning of a capitalized word.
void append_title(char32_t c, std::string& out);

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// Appends `text`, valid UTF-8, in a Unicode normal form.
void append_normal_form(NormalForm form, std::string_view text, std::string& out);

// Character properties as a text normalizer sees them, which depend on its Unicode version.
struct UnicodeRules {
  // BERT's control characters: general category Cc, Cf, Cs or Co, tab and line ends included.
  bool (*is_control)(char32_t);
  // General category P*, or any visible ASCII character that is neither letter nor digit.
  bool (*is_punctuation)(char32_t);
  // General category Mn.
  bool (*is_nonspacing_mark)(char32_t);
  // Around which BERT puts spaces.
  bool (*is_ideograph)(char32_t);
  // Appends the lower-case form of one character, without regard to its context.
  void (*append_lower)(char32_t, std::string&);
  // Appends a text, valid UTF-8, in a normal form.
  void (*append_normal_form)(NormalForm, std::string_view, std::string&);
};

// As utf8proc sees them.
extern const UnicodeRules newest_unicode;

}  // namespace trireme
