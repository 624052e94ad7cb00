// Dropout masks, drawn as on the CPU (backend/cpu/kernels/dropout_mask.h): Philox words are a pure
// function of (seed, step, site, sample, position, column).
//
// (seed, step, site, stream) determine a site's key; stream 0 is a hidden activation, stream 1 + h
// attention head h. One counter gives eight 16-bit draws, two per word, lower half first. An
// element is kept if its draw is below the threshold.
#pragma once

#include <cmath>
#include <cstdint>

#include "backend/gpu/kernels/eight.h"
#include "backend/kernels.h"
#include "base/random.h"

namespace trireme::gpu {

// Kernel argument for dropout. For attention, queries count from position first_row, and keys from
// first_column, a multiple of 8.
struct DropoutSite {
  const StepBlock* block;
  const std::int64_t* sample_ids;
  std::int64_t seq_length, first_row, first_column;
  SequenceCut cut;
  std::uint32_t site, threshold;
  float multiplier;  // for kept elements
  bool active;

  // Returns whether a thread's eight columns can be 16-byte aligned.
  bool is_aligned() const { return !active || first_column % 8 == 0; }

  explicit DropoutSite(const Dropout& d)
      : block(d.block),
        sample_ids(d.sample_ids),
        seq_length(d.seq_length),
        first_row(d.first_row),
        first_column(d.first_column),
        cut(d.cut),
        site(d.site),
        threshold(0),
        active(d.probability > 0) {
    const long keep = std::lrint((1.0f - d.probability) * 65536.0f);
    if (keep > 0) threshold = static_cast<std::uint32_t>(keep);
    multiplier = threshold > 0 ? 65536.0f / static_cast<float>(threshold) : 0.0f;
  }
};

namespace detail {

GPU_FN std::uint32_t low_half(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
GPU_FN std::uint32_t high_half(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}

GPU_FN std::uint64_t site_key(const DropoutSite& site, std::uint32_t stream) {
  const StepBlock& block = *site.block;
  const Philox words =
      philox(block.seed, {low_half(block.step), high_half(block.step), site.site, stream});
  return words[0] | std::uint64_t{words[1]} << 32;
}

// Bit d: draw d of the counter is kept.
GPU_FN std::uint32_t kept_draws(std::uint64_t key, const Philox& counter, std::uint32_t threshold) {
  const Philox words = philox(key, counter);
  std::uint32_t bits = 0;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    if ((words[w] & 0xffff) < threshold) bits |= 1u << 2 * w;
    if ((words[w] >> 16) < threshold) bits |= 2u << 2 * w;
  }
  return bits;
}

template <int threads>
struct KeptBytes {
  alignas(8) std::uint8_t of_thread[2][threads];
};

}  // namespace detail

// Mask of a hidden activation, eight columns per thread of a block.
//
// Columns 128 b + 16 d + l, with d < 8 and l < 16, use draw d of counter {16 b + l, position,
// sample}. Sixteen neighboring threads covering 128 columns thus need sixteen counters: each draws
// one of them and reads the other threads' draws.
template <int threads>
class HiddenMask {
 public:
  // Number of columns by which a block's first thread starts before the tensor, so that sixteen
  // threads cover an aligned group of 128 columns of the whole layer.
  GPU_FN static std::int64_t columns_before(const DropoutSite& site) {
    return site.active ? site.first_column % 128 : 0;
  }

  GPU_FN explicit HiddenMask(const DropoutSite& site)
      : site_(site), key_(site.active ? detail::site_key(site, 0) : 0) {}

  // Moves to row r of the tensor.
  GPU_FN void set_row(std::int64_t row) {
    if (!site_.active) return;
    const std::int64_t whole = site_.first_row + row;
    sample_ = static_cast<std::uint64_t>(site_.sample_ids[whole / site_.seq_length]);
    position_ = static_cast<std::uint32_t>(site_.cut.position(whole % site_.seq_length));
  }

  // Returns x with dropped elements zeroed and kept ones scaled. x starts at column 8 i -
  // columns_before; i and the thread's index are equal modulo 16. All threads of the wave
  // participate. Without dropout: x.
  GPU_FN Eight apply(const Eight& x, std::int64_t column) {
    if (!site_.active) return x;
    const auto eighth = static_cast<std::uint32_t>((site_.first_column + column) / 8);
    std::uint8_t* const kept = shared_memory<detail::KeptBytes<threads>>().of_thread[turn_];
    turn_ ^= 1;
    kept[thread_index()] = static_cast<std::uint8_t>(detail::kept_draws(
        key_, {eighth, position_, detail::low_half(sample_), detail::high_half(sample_)},
        site_.threshold));
    sync_wave();
    // Draw (eighth % 16) / 2 of the eight counters starting at 8 (eighth % 2).
    const unsigned in_block = thread_index() % 16;
    const std::uint64_t bits = *reinterpret_cast<const std::uint64_t*>(
                                   kept + (thread_index() - in_block) + in_block % 2 * 8) >>
                               in_block / 2;
    Eight result;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      result.v[i] = x.v[i] * (bits >> 8 * i & 1 ? site_.multiplier : 0.0f);
    return result;
  }

 private:
  const DropoutSite& site_;
  std::uint64_t key_, sample_ = 0;
  std::uint32_t position_ = 0;
  int turn_ = 0;  // buffer of the next call: a thread may be one call ahead of others
};

// Mask of one head's attention probabilities. Query q and key k use draw k % 8 of counter {q, k /
// 8, sample}; q and k are positions within the sample.
class AttentionMask {
 public:
  // head counts within the whole layer; sample is the global sample id.
  GPU_FN AttentionMask(const DropoutSite& site, std::int64_t head, std::int64_t sample)
      : key_(detail::site_key(site, 1 + static_cast<std::uint32_t>(head))),
        sample_(static_cast<std::uint64_t>(sample)),
        first_query_(static_cast<std::uint32_t>(site.first_row)),
        first_eighth_(static_cast<std::uint32_t>(site.first_column) / 8),
        threshold_(site.threshold) {}

  // Bit j: key 8 * eighth + j is kept. Offsets of positions are added here, as late as possible:
  // sums computed earlier would occupy registers throughout the kernel.
  GPU_FN std::uint32_t kept(int query, int eighth) const {
    return detail::kept_draws(key_,
                              {first_query_ + static_cast<std::uint32_t>(recomputed(query)),
                               first_eighth_ + static_cast<std::uint32_t>(recomputed(eighth)),
                               detail::low_half(sample_), detail::high_half(sample_)},
                              threshold_);
  }

 private:
  std::uint64_t key_, sample_;
  std::uint32_t first_query_, first_eighth_, threshold_;
};

}  // namespace trireme::gpu
