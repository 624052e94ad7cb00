// Pre-tokenizers by hand: where the regular expressions of GPT-2, of cl100k and Llama 3, and of
// Qwen 2 split a text. Equal to Oniguruma on every string (a differential test holds them to it),
// several times faster, and linear in the length of the text whatever it holds.
//   GPT-2:  's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   cl100k: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
//           | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   Qwen 2: as cl100k, but with \p{N} for \p{N}{1,3}
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "tokenizer/patterns/ascii_starts.h"
#include "tokenizer/patterns/char_class.h"
#include "tokenizer/patterns/contraction.h"

namespace trireme {

namespace split_detail {

static_assert(std::endian::native == std::endian::little, "words are scanned from their low byte");

// The high bit of each byte of `word` that is not an ASCII letter.
inline std::uint64_t non_letters(std::uint64_t word) {
  constexpr std::uint64_t ones = 0x0101010101010101;
  constexpr std::uint64_t high = 0x80 * ones;
  const std::uint64_t lower = (word | 0x20 * ones) & ~high;
  const std::uint64_t from_a = lower + (0x80 - 'a') * ones;
  const std::uint64_t past_z = lower + (0x7F - 'z') * ones;
  return (~from_a | past_z | word) & high;
}

// The end of a run of one class. Letters, the common case, go eight ASCII bytes at a time.
template <CharClass cls>
const char* skip(const CharClasses& classes, const char* p, const char* end) {
  while (true) {
    if constexpr (cls == CharClass::letter) {
      while (end - p >= 8) {
        std::uint64_t word;
        std::memcpy(&word, p, 8);
        const std::uint64_t stop = non_letters(word);
        p += stop ? std::countr_zero(stop) / 8 : 8;
        if (stop) break;
      }
    }
    if (p == end) return p;
    const ClassedChar c = classify(classes, p, end);
    if (c.cls != cls) return p;
    p += c.length;
  }
}

inline const char* skip_newlines(const char* p, const char* end) {
  while (p < end && (*p == '\r' || *p == '\n')) ++p;
  return p;
}

// `\s+(?!\S)|\s+` at a white-space character: a run before other text leaves its last character to
// the next piece, unless it is the only one.
inline const char* skip_spaces_but_one(const CharClasses& classes, const char* p, const char* end) {
  const char* last = p;
  const char* q = p;
  while (q < end) {
    const ClassedChar c = classify(classes, q, end);
    if (c.cls != CharClass::space) return last == p ? q : last;
    last = q;
    q += c.length;
  }
  return q;
}

// `\s*[\r\n]+|\s+(?!\S)|\s+`: a run that has line ends stops after the last of them.
inline const char* skip_spaces_to_newline(const CharClasses& classes, const char* p,
                                          const char* end) {
  const char* last = p;
  const char* after_newline = nullptr;
  const char* q = p;
  while (q < end) {
    const ClassedChar c = classify(classes, q, end);
    if (c.cls != CharClass::space) break;
    last = q;
    q += c.length;
    if (*last == '\r' || *last == '\n') after_newline = q;
  }
  if (after_newline) return after_newline;
  return q == end || last == p ? q : last;
}

inline const char* end_of_piece(std::integral_constant<SplitPattern, SplitPattern::gpt2>,
                                const CharClasses& classes, const char* p, const char* end) {
  if (*p == '\'') {
    if (const int length = contraction(p + 1, end)) return p + 1 + length;
  }
  const char* q = *p == ' ' && p + 1 < end ? p + 1 : p;
  const ClassedChar c = classify(classes, q, end);
  switch (c.cls) {
    case CharClass::letter:
      return skip<CharClass::letter>(classes, q + c.length, end);
    case CharClass::number:
      return skip<CharClass::number>(classes, q + c.length, end);
    case CharClass::other:
      return skip<CharClass::other>(classes, q + c.length, end);
    case CharClass::space:
      break;
  }
  return skip_spaces_but_one(classes, p, end);
}

// cl100k's pattern with up to `digits` numbers in a piece.
template <int digits>
const char* end_of_cl100k_piece(const CharClasses& classes, const char* p, const char* end) {
  if (*p == '\'') {
    if (const int length = contraction_any_case(p + 1, end)) return p + 1 + length;
  }
  const ClassedChar first = classify(classes, p, end);
  const char* q = p + first.length;
  if (first.cls == CharClass::letter) return skip<CharClass::letter>(classes, q, end);
  if (first.cls == CharClass::number) {
    for (int count = 1; count < digits && q < end; ++count) {
      const ClassedChar c = classify(classes, q, end);
      if (c.cls != CharClass::number) break;
      q += c.length;
    }
    return q;
  }
  // One character that is neither letter, number nor line end may lead a run of letters, and a
  // space may lead a run of others.
  const CharClass next = q < end ? classify(classes, q, end).cls : CharClass::space;
  if (next == CharClass::letter && *p != '\r' && *p != '\n') {
    return skip<CharClass::letter>(classes, q, end);
  }
  if (first.cls == CharClass::other || (*p == ' ' && next == CharClass::other)) {
    return skip_newlines(skip<CharClass::other>(classes, q, end), end);
  }
  return skip_spaces_to_newline(classes, p, end);
}

inline const char* end_of_piece(std::integral_constant<SplitPattern, SplitPattern::cl100k>,
                                const CharClasses& classes, const char* p, const char* end) {
  return end_of_cl100k_piece<3>(classes, p, end);
}

inline const char* end_of_piece(std::integral_constant<SplitPattern, SplitPattern::qwen2>,
                                const CharClasses& classes, const char* p, const char* end) {
  return end_of_cl100k_piece<1>(classes, p, end);
}

}  // namespace split_detail

// Calls emit(begin, end) for each piece in order; together the pieces are the whole text. ASCII
// text goes by blocks, and what they do not settle piece by piece.
template <SplitPattern pattern, class Emit>
void split(const char* p, const char* end, Emit&& emit) {
  const CharClasses& classes = char_classes();
  while (p < end) {
    const char lead = *p;
    if (static_cast<std::size_t>(end - p) >= AsciiBlock::kSize && (lead & 0x80) == 0) {
      const char* const block = p;
      std::uint64_t starts = split_detail::settled_starts<pattern>(block);
      const bool any = starts != 0;
      for (; starts != 0; starts &= starts - 1) {
        const char* const q = block + std::countr_zero(starts);
        emit(p, q);
        p = q;
      }
      if (any) continue;
    }
    const char* q = split_detail::end_of_piece(std::integral_constant<SplitPattern, pattern>{},
                                               classes, p, end);
    emit(p, q);
    p = q;
  }
}

}  // namespace trireme
