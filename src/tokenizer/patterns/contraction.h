// The letters of English contractions: s, t, re, ve, m, ll, d.
#pragma once

namespace trireme::split_detail {

// Returns the length of a contraction's letters at p, after the apostrophe, or 0.
inline int contraction(const char* p, const char* end) {
  if (p == end) return 0;
  if (*p == 's' || *p == 't' || *p == 'm' || *p == 'd') return 1;
  if (end - p < 2) return 0;
  return (p[1] == 'e' && (*p == 'r' || *p == 'v')) || (p[0] == 'l' && p[1] == 'l') ? 2 : 0;
}

// The same without regard to case, where U+017F (long s) folds to s.
inline int contraction_any_case(const char* p, const char* end) {
  const char two[2] = {static_cast<char>(p < end ? *p | 0x20 : 0),
                       static_cast<char>(end - p >= 2 ? p[1] | 0x20 : 0)};
  if (end - p >= 2 && p[0] == '\xC5' && p[1] == '\xBF') return 2;
  return contraction(two, two + 2);
}

}  // namespace trireme::split_detail
