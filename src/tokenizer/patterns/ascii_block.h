// Classes of 64 characters at once, one bit for each.
#pragma once

#include <cstddef>
#include <cstdint>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace trireme {

// Bit i of each word stands for byte i. Bytes from 0x80 on are in `beyond` and in no other word.
struct AsciiBlock {
  static constexpr std::size_t kSize = 64;  // bytes

  std::uint64_t letter = 0;
  std::uint64_t number = 0;
  std::uint64_t space = 0;    // white space, newlines too
  std::uint64_t blank = 0;    // ' '
  std::uint64_t newline = 0;  // '\n' and '\r'
  std::uint64_t quote = 0;    // '\''
  std::uint64_t beyond = 0;

  // Reads kSize bytes at `p`.
  static AsciiBlock at(const char* p) {
    AsciiBlock block;
    for (std::size_t i = 0; i < kSize; i += kStep) block.add(p + i, i);
    return block;
  }

 private:
#ifdef __SSE2__
  static constexpr std::size_t kStep = 16;

  void add(const char* p, std::size_t shift) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const auto is = [&](char c) { return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)); };
    // Compares signed bytes: those from `first` to `last` are moved to the upper end.
    const auto within = [](__m128i from, char first, char last) {
      return _mm_cmpgt_epi8(_mm_add_epi8(from, _mm_set1_epi8(static_cast<char>(127 - last))),
                            _mm_set1_epi8(static_cast<char>(126 - (last - first))));
    };
    const auto put = [&](std::uint64_t& word, __m128i mask) {
      word |= std::uint64_t{static_cast<std::uint32_t>(_mm_movemask_epi8(mask))} << shift;
    };
    put(letter, within(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 'z'));
    put(number, within(bytes, '0', '9'));
    put(space, _mm_or_si128(is(' '), within(bytes, '\t', '\r')));
    put(blank, is(' '));
    put(newline, _mm_or_si128(is('\n'), is('\r')));
    put(quote, is('\''));
    put(beyond, bytes);
  }
#else
  static constexpr std::size_t kStep = 1;

  void add(const char* p, std::size_t shift) {
    const char c = *p;
    const auto put = [&](std::uint64_t& word, bool holds) {
      word |= std::uint64_t{holds} << shift;
    };
    put(letter, ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z'));
    put(number, '0' <= c && c <= '9');
    put(space, c == ' ' || ('\t' <= c && c <= '\r'));
    put(blank, c == ' ');
    put(newline, c == '\n' || c == '\r');
    put(quote, c == '\'');
    put(beyond, static_cast<unsigned char>(c) >= 0x80);
  }
#endif
};

}  // namespace trireme
