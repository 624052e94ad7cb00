// A table of ranges, with one bit per page of 256 characters so that most text passes quickly.
#include "tokenizer/unicode_fallbacks.h"

#include <algorithm>
#include <bitset>
#include <iterator>

#include "tokenizer/utf8.h"

namespace trireme {
namespace {

struct Range {
  char32_t first;
  char32_t last;
  char32_t fallback;
};

constexpr Range kRanges[] = {
#include "tokenizer/unicode_fallbacks.inc"
};

using Pages = std::bitset<0x110000 / 256>;

Pages pages_with_young_characters() {
  Pages pages;
  for (const Range& range : kRanges) {
    for (char32_t page = range.first / 256; page <= range.last / 256; ++page) pages.set(page);
  }
  return pages;
}

}  // namespace

char32_t fallback(char32_t c) {
  static const Pages pages = pages_with_young_characters();
  if (!pages[c / 256]) return c;
  const Range* found = std::upper_bound(std::begin(kRanges), std::end(kRanges), c,
                                        [](char32_t a, const Range& b) { return a < b.first; });
  if (found == std::begin(kRanges) || c > (--found)->last) return c;
  return found->fallback;
}

std::string with_fallbacks(std::string_view text) {
  std::string out;
  std::size_t copied = 0;  // bytes of `text` that are in `out`
  const char* end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    if (static_cast<unsigned char>(*p) < 0x80) {
      ++p;
      continue;
    }
    const DecodedChar c = decode_utf8(p, end);
    const auto at = static_cast<std::size_t>(p - text.data());
    p += c.length;
    const char32_t older = fallback(c.value);
    if (older == c.value) continue;
    out += text.substr(copied, at - copied);
    append_utf8(older, out);
    copied = at + c.length;
  }
  if (copied > 0) out += text.substr(copied);
  return out;
}

}  // namespace trireme
