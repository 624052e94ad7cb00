// Where pieces of ASCII text begin, for 64 characters at once: a pre-tokenizer's expression as
// operations on words, whose bit i stands for character i. A loop over characters loses most of its
// time to mispredicted branches; these operations branch only for contractions and rare runs.
//
// starts() is given a block whose first character begins a piece, and returns the characters that
// begin one. What follows the block may still change its last bits; settled_starts() clears them.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "tokenizer/patterns/ascii_block.h"
#include "tokenizer/patterns/contraction.h"

namespace trireme {

enum class SplitPattern { gpt2, cl100k, qwen2 };

namespace split_detail {

// The characters after those of a set.
constexpr std::uint64_t after(std::uint64_t set) {
  return set << 1;
}
// Those before them.
constexpr std::uint64_t before(std::uint64_t set) {
  return set >> 1;
}
// The first character of each run.
constexpr std::uint64_t firsts(std::uint64_t set) {
  return set & ~after(set);
}
// The last one.
constexpr std::uint64_t lasts(std::uint64_t set) {
  return set & ~before(set);
}

// Runs of `set` from the characters in `from` to their ends; each run has at most one of these. An
// addition carries from there to the end of the run.
constexpr std::uint64_t rest_of_runs(std::uint64_t set, std::uint64_t from) {
  return set & ~(set + from);
}

// Ends a piece after each contraction. `quotes` are the apostrophes that begin a piece and are
// followed by a letter.
template <int length_of(const char*, const char*)>
std::uint64_t cut_contractions(std::uint64_t starts, std::uint64_t quotes, const char* p) {
  for (; quotes != 0; quotes &= quotes - 1) {
    const int at = std::countr_zero(quotes);
    const int length = length_of(p + at + 1, p + AsciiBlock::kSize);
    if (length == 0) continue;
    starts &= ~(std::uint64_t{2} << at);
    starts |= std::uint64_t{2} << at << length;  // beyond the block: none
  }
  return starts;
}

inline std::uint64_t starts(std::integral_constant<SplitPattern, SplitPattern::gpt2>,
                            const AsciiBlock& block, const char* p) {
  const std::uint64_t other = ~(block.letter | block.number | block.space);
  const std::uint64_t runs = firsts(block.letter) | firsts(block.number) | firsts(other);
  // A run takes the blank before it. Of white space before other text the last character is left.
  const std::uint64_t spaces = firsts(block.space) | lasts(block.space);
  const std::uint64_t found = (runs & ~after(block.blank)) | spaces;
  return cut_contractions<contraction>(found, found & block.quote & before(block.letter), p);
}

// Beginnings of groups of three digits.
inline std::uint64_t every_third(std::uint64_t numbers) {
  const std::uint64_t three = numbers & after(numbers) & after(after(numbers));
  std::uint64_t found = firsts(numbers);
  for (std::uint64_t more = found << 3 & three; more != 0; more = more << 3 & three) found |= more;
  return found;
}

// Pieces of white space: each run up to its last newline, then the rest but for its last character,
// then that character. Newlines that belong to the piece before them are not in the sets.
inline std::uint64_t space_starts(std::uint64_t space, std::uint64_t newline) {
  const std::uint64_t plain = space & ~newline;
  std::uint64_t rests = firsts(plain) & after(newline & space);
  // Where a newline follows, the rest belongs to the piece before it.
  const std::uint64_t inner = (plain + firsts(plain)) & ~plain & newline;
  for (std::uint64_t ends = inner; ends != 0; ends &= ends - 1) {
    const std::uint64_t below = (ends & -ends) - 1;
    const std::uint64_t outside = ~plain & below;
    rests &= ~(outside == 0 ? 1 : std::bit_floor(outside) << 1);
  }
  return firsts(space) | rests | (plain & ~before(space));
}

template <bool in_threes>
std::uint64_t cl100k_starts(const AsciiBlock& block, const char* p) {
  const std::uint64_t other = ~(block.letter | block.number | block.space);
  const std::uint64_t taken = rest_of_runs(block.newline, after(other) & block.newline);
  const std::uint64_t others = firsts(other) & ~after(block.blank);
  // One character that is neither letter, number nor newline leads letters.
  const std::uint64_t leads = (others & before(block.letter)) | (block.space & ~block.newline);
  const std::uint64_t letters = firsts(block.letter) & ~after(leads);
  const std::uint64_t numbers = in_threes ? every_third(block.number) : block.number;
  const std::uint64_t found =
      letters | numbers | others | space_starts(block.space & ~taken, block.newline & ~taken);
  return cut_contractions<contraction_any_case>(found, others & block.quote & before(block.letter),
                                                p);
}

inline std::uint64_t starts(std::integral_constant<SplitPattern, SplitPattern::cl100k>,
                            const AsciiBlock& block, const char* p) {
  return cl100k_starts<true>(block, p);
}

inline std::uint64_t starts(std::integral_constant<SplitPattern, SplitPattern::qwen2>,
                            const AsciiBlock& block, const char* p) {
  return cl100k_starts<false>(block, p);
}

// The characters after the first that begin a piece whatever follows the block.
template <SplitPattern pattern>
std::uint64_t settled_starts(const char* p) {
  const AsciiBlock block = AsciiBlock::at(p);
  // What lies before the first character that is not ASCII, but for the last character and for the
  // white space at its end.
  const std::uint64_t known =
      block.beyond != 0 ? (block.beyond & -block.beyond) - 1 : ~std::uint64_t{0};
  const std::uint64_t text = known & ~block.space;
  const std::uint64_t settled = (text == 0 ? 0 : 2 * std::bit_floor(text) - 1) & before(known);
  return starts(std::integral_constant<SplitPattern, pattern>{}, block, p) & settled &
         ~std::uint64_t{1};
}

}  // namespace split_detail
}  // namespace trireme
