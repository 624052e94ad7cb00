// Characters that are younger than the Unicode 14 of Debian's Oniguruma, and older ones of the same
// kind that can take their places while a pattern is matched.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// The older character of the same general category, script and length in UTF-8; `c` itself where it
// is old enough.
char32_t fallback(char32_t c);

// A copy of `text`, valid UTF-8, in which fallbacks replace the characters that Oniguruma lacks: as
// long as `text` and with the same borders between characters. Empty if there are none.
std::string with_fallbacks(std::string_view text);

}  // namespace trireme
