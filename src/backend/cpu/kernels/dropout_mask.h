// Dropout masks and multipliers: Philox4x32-10 in vector registers. Draws are a pure function of
// (seed, step, site, sample, position, column), so they are independent of the parallel layout
// and of the order of work.
//
// (seed, step, site, stream) give the Philox key of a site; stream 0 is a hidden activation,
// stream 1 + h attention head h. One counter gives 128 bits: eight 16-bit draws. An element
// is kept if its draw is below the keep probability times 2^16, and is divided by exactly
// that rounded probability.
#pragma once

#include "backend/cpu/kernels/simd.h"

namespace trireme::cpu::TRIREME_ISA {

// Philox words of sixteen counters: word[w] holds word w of each.
struct PhiloxWords {
  Vec<std::uint32_t> word[4];
};

// Round keys of the ten rounds, each in the lower half of a 64-bit word.
struct PhiloxKey {
  std::uint64_t low[10], high[10];

  PhiloxKey(std::uint32_t first_low, std::uint32_t first_high) {
    for (std::uint32_t round = 0; round < 10; ++round) {
      low[round] = first_low + round * 0x9E3779B9;
      high[round] = first_high + round * 0xBB67AE85;
    }
  }
};

namespace detail {

// Counters and words are in the lower halves of 64-bit lanes, where the multiplier reads them; the
// upper halves hold leftovers that are never read.
using Wide = Vec<std::uint64_t>;

TRIREME_INLINE Wide multiply_low_halves(Wide a, std::uint32_t factor) {
  return map<std::uint64_t>(
      [=](auto part) TRIREME_INLINE_LAMBDA {
#ifdef __AVX512F__
        return (Wide::Part)_mm512_mul_epu32((__m512i)part, _mm512_set1_epi64(factor));
#else
        return (Wide::Part)_mm256_mul_epu32((__m256i)part, _mm256_set1_epi64x(factor));
#endif
      },
      a);
}

TRIREME_INLINE void philox_rounds(const PhiloxKey& key, Wide (&c)[4]) {
  for (int round = 0; round < 10; ++round) {
    const Wide p0 = multiply_low_halves(c[0], 0xD2511F53);
    const Wide p1 = multiply_low_halves(c[2], 0xCD9E8D57);
    c[0] = shift_right(p1, 32) ^ c[1] ^ splat(key.low[round]);
    c[1] = p1;
    c[2] = shift_right(p0, 32) ^ c[3] ^ splat(key.high[round]);
    c[3] = p0;
  }
}

}  // namespace detail

// The words of the sixteen counters {first + lane, c1, c2, c3}, lane = 0 .. 15.
TRIREME_INLINE PhiloxWords philox16(const PhiloxKey& key, std::uint32_t first, std::uint32_t c1,
                                    std::uint32_t c2, std::uint32_t c3) {
  using detail::Wide;
  alignas(64) static constexpr std::uint64_t twos[8] = {0, 2, 4, 6, 8, 10, 12, 14};
  const Wide lane = load_whole(twos);
  const auto wide = [](std::uint32_t x) { return splat(std::uint64_t{x}); };
  Wide even[4] = {wide(first) + lane, wide(c1), wide(c2), wide(c3)};
  Wide odd[4] = {wide(first) + lane + wide(1), wide(c1), wide(c2), wide(c3)};
  detail::philox_rounds(key, even);
  detail::philox_rounds(key, odd);
  PhiloxWords out;
  for (int w = 0; w < 4; ++w) {
    const Wide both = (even[w] & wide(0xffffffff)) | shift_left(odd[w], 32);
    out.word[w] = bits_as<std::uint32_t>(both);
  }
  return out;
}

// State of a dropout site that is common to all its elements.
template <class A>
struct DropoutSite {
  PhiloxKey key;
  std::uint32_t threshold;  // draws below it are kept
  A multiplier;             // for kept elements

  DropoutSite(const Dropout& dropout, std::uint32_t stream) : key(key_of(dropout, stream)) {
    const long keep = __builtin_lrintf((1.0f - dropout.probability) * 65536.0f);
    threshold = keep > 0 ? static_cast<std::uint32_t>(keep) : 0;
    multiplier = threshold > 0 ? A{65536} / static_cast<A>(threshold) : A{0};
  }

  // Writes the multipliers of eight times sixteen draws: out[draw * ld + lane].
  TRIREME_INLINE void write(A* out, std::int64_t ld, const PhiloxWords& words) const {
    for (int draw = 0; draw < 8; ++draw) {
      const auto word = words.word[draw / 2];
      const auto bits = draw % 2 ? shift_right(word, 16) : word & splat(std::uint32_t{0xffff});
      write_sixteen(out + draw * ld, bits);
    }
  }

 private:
  // Two words of counter {step low, step high, site, stream} under the seed. A site without dropout
  // draws nothing, as its block may be null.
  static PhiloxKey key_of(const Dropout& dropout, std::uint32_t stream) {
    if (dropout.probability == 0) return {0, 0};
    const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
    const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
    const StepBlock& block = *dropout.block;
    const PhiloxKey seed(low(block.seed), high(block.seed));
    const PhiloxWords words =
        philox16(seed, low(block.step), high(block.step), dropout.site, stream);
    return {words.word[0].part[0][0], words.word[1].part[0][0]};
  }

  TRIREME_INLINE void write_sixteen(float* out, Vec<std::uint32_t> bits) const {
    // Both sides are below 2^17, so a signed comparison (a single instruction) is correct.
    store(out, where_less(bits_as<std::int32_t>(bits), splat(static_cast<std::int32_t>(threshold)),
                          splat(multiplier), splat(0.0f)));
  }
  TRIREME_INLINE void write_sixteen(double* out, Vec<std::uint32_t> bits) const {
    std::uint32_t lane[16];
    __builtin_memcpy(lane, &bits, sizeof lane);
    for (int i = 0; i < 16; ++i) out[i] = lane[i] < threshold ? multiplier : 0.0;
  }
};

inline bool is_active(const Dropout& dropout) {
  return dropout.probability > 0;
}

// Multipliers of the columns of one hidden activation. Columns 128 b + 16 d + l, with d < 8 and
// l < 16, take draw d of counter {16 b + l, position, sample}.
template <class A>
class HiddenDropout {
 public:
  static constexpr int block_columns = 128;

  explicit HiddenDropout(const Dropout& dropout) : site_(dropout, 0), dropout_(dropout) {}

  // Moves to row r of the tensor.
  void set_row(std::int64_t row) {
    const std::int64_t whole = dropout_.first_row + row;
    sample_ = static_cast<std::uint64_t>(dropout_.sample_ids[whole / dropout_.seq_length]);
    position_ = static_cast<std::uint32_t>(dropout_.cut.position(whole % dropout_.seq_length));
  }

  // Multipliers of local columns [column, column + 128); column must be a multiple of 128. Valid
  // until the next call.
  const A* block(std::int64_t column) {
    const std::int64_t global = dropout_.first_column + column;
    fill(buffer_, global / block_columns);
    const std::int64_t offset = global % block_columns;
    if (offset != 0) fill(buffer_ + block_columns, global / block_columns + 1);
    return buffer_ + offset;
  }

 private:
  void fill(A* out, std::int64_t block) const {
    site_.write(
        out, 16,
        philox16(site_.key, static_cast<std::uint32_t>(block * 16), position_,
                 static_cast<std::uint32_t>(sample_), static_cast<std::uint32_t>(sample_ >> 32)));
  }

  DropoutSite<A> site_;
  Dropout dropout_;
  std::uint64_t sample_ = 0;
  std::uint32_t position_ = 0;
  alignas(64) A buffer_[2 * block_columns];
};

// Multipliers of one head's attention probabilities. Query q and key k take draw k % 8 of counter
// {q, k / 8, sample}; q and k are positions within the sample.
template <class A>
class AttentionDropout {
 public:
  static constexpr int block_keys = 8;
  static constexpr int block_queries = 16;

  // head counts within the whole layer; sample is the global sample id.
  AttentionDropout(const Dropout& dropout, std::int64_t head, std::int64_t sample)
      : site_(dropout, 1 + static_cast<std::uint32_t>(head)),
        sample_(static_cast<std::uint64_t>(sample)) {}

  // Writes out[j * ld + i] for keys key + j, j < 8, and queries query + i, i < 16. key must be a
  // multiple of 8, query may be anything.
  TRIREME_INLINE void block(A* out, std::int64_t ld, std::int64_t key, std::int64_t query) const {
    site_.write(
        out, ld,
        philox16(site_.key, static_cast<std::uint32_t>(query),
                 static_cast<std::uint32_t>(key / block_keys), static_cast<std::uint32_t>(sample_),
                 static_cast<std::uint32_t>(sample_ >> 32)));
  }

 private:
  DropoutSite<A> site_;
  std::uint64_t sample_;
};

}  // namespace trireme::cpu::TRIREME_ISA
