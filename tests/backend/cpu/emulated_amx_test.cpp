// The emulation of AMX: its tile product against the processor's definition, operation by
// operation, its refusals, and on a processor with AMX the same bits.
#ifdef TRIREME_EMULATED_AMX  // not in builds with sanitizers
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/cpu/amx_code.h"
#include "backend/cpu/emulated/tiles.h"
#include "backend/cpu/isa.h"
#include "base/error.h"
#include "base/random.h"

namespace trireme::cpu {
namespace {

struct alignas(64) Configuration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

using Words = std::array<std::uint32_t, 256>;  // a tile of 16 rows

// Pairs of bf16 of many magnitudes, denormals among them, so that every rounding counts.
Words random_pairs(std::uint64_t stream) {
  Words words;
  for (std::uint32_t i = 0; i < words.size(); ++i) {
    const auto half = [&](std::uint64_t index) {
      const auto value =
          static_cast<float>(std::ldexp(normal(3, stream, index), -static_cast<int>(index % 9)));
      const auto bits = std::bit_cast<std::uint32_t>(value) >> 16;
      return index % 31 == 0 ? bits & 0x807f : bits;
    };
    words[i] = half(2 * i) | half(2 * i + 1) << 16;
  }
  return words;
}

float flush(float x) {
  return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}
float element(std::uint32_t pair, int place) {
  return flush(std::bit_cast<float>(place == 0 ? pair << 16 : pair & 0xffff0000U));
}

// TDPBF16PS as Intel's manual writes it down, element by element.
Words product(const Words& sums, const Words& a, const Words& b) {
  Words out;
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 16; ++n) {
      float part[2] = {0, 0};
      for (int k = 0; k < 16; ++k) {
        for (const int place : {0, 1}) {
          const float x = element(a[m * 16 + k], place), y = element(b[k * 16 + n], place);
          part[place] = flush(std::fma(x, y, part[place]));
        }
      }
      const float both = flush(part[0] + part[1]);
      const float before = flush(std::bit_cast<float>(sums[m * 16 + n]));
      out[m * 16 + n] = std::bit_cast<std::uint32_t>(flush(before + both));
    }
  }
  return out;
}

TEST(EmulatedAmx, ProductHasTheProcessorsRoundings) {
  const Configuration configuration;
  amx_emulated::_tile_loadconfig(&configuration);
  for (std::uint64_t stream = 0; stream < 20; ++stream) {
    const Words a = random_pairs(3 * stream), b = random_pairs(3 * stream + 1);
    Words sums = random_pairs(3 * stream + 2), want = product(product(sums, a, b), a, b);
    amx_emulated::_tile_loadd(0, sums.data(), 64);
    amx_emulated::_tile_loadd(4, a.data(), 64);
    amx_emulated::_tile_stream_loadd(6, b.data(), 64);
    std::fesetround(FE_UPWARD);  // which counts for nothing
    amx_emulated::_tile_dpbf16ps(0, 4, 6);
    amx_emulated::_tile_dpbf16ps(0, 4, 6);
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    std::fesetround(FE_TONEAREST);
    amx_emulated::_tile_stored(0, sums.data(), 64);
    EXPECT_EQ(sums, want) << "stream " << stream;
  }
  amx_emulated::_tile_release();
}

// Pairs of any bits: some are NaN, infinities and denormals.
Words any_pairs(std::uint64_t stream) {
  Words words;
  for (std::uint32_t i = 0; i < words.size(); ++i) {
    const auto half = [&](std::uint32_t index) {
      constexpr std::uint32_t special[] = {0x7f80, 0xff80, 0x7fc1, 0x7f81,
                                           0x0001, 0x807f, 0,      0x7f7f};
      const auto draw = philox(5, {index, static_cast<std::uint32_t>(stream), 0, 0});
      return draw[0] % 64 == 0 ? special[draw[1] % 8] : draw[2] >> 16;
    };
    words[i] = half(2 * i) | half(2 * i + 1) << 16;
  }
  return words;
}

bool equal_or_nan(std::uint32_t x, std::uint32_t y) {
  return x == y || (std::isnan(std::bit_cast<float>(x)) && std::isnan(std::bit_cast<float>(y)));
}

TEST(EmulatedAmx, ProductOfAnyBitsIsTheProcessors) {
  const Configuration configuration;
  amx_emulated::_tile_loadconfig(&configuration);
  int numbers = 0, not_numbers = 0;
  for (std::uint64_t stream = 0; stream < 20; ++stream) {
    const Words a = random_pairs(3 * stream), b = any_pairs(3 * stream + 1);
    Words sums = any_pairs(3 * stream + 2);
    const Words want = product(sums, a, b);
    amx_emulated::_tile_loadd(0, sums.data(), 64);
    amx_emulated::_tile_loadd(4, a.data(), 64);
    amx_emulated::_tile_loadd(6, b.data(), 64);
    amx_emulated::_tile_dpbf16ps(0, 4, 6);
    amx_emulated::_tile_stored(0, sums.data(), 64);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      EXPECT_TRUE(equal_or_nan(sums[i], want[i])) << "stream " << stream << ", sum " << i;
      ++(std::isnan(std::bit_cast<float>(want[i])) ? not_numbers : numbers);
    }
  }
  EXPECT_GT(numbers, 500);
  EXPECT_GT(not_numbers, 500);
  amx_emulated::_tile_release();
}

// An operand of several products, and one that changes between them by a load, by zeroing and by
// being a sum.
TEST(EmulatedAmx, ProductsSeeWhatTheirTilesHold) {
  const Configuration configuration;
  amx_emulated::_tile_loadconfig(&configuration);
  const Words a = random_pairs(1), b = random_pairs(2), c = random_pairs(3), none{};
  Words out;
  const auto expect_sums = [&](int tile, const Words& want) {
    amx_emulated::_tile_stored(tile, out.data(), 64);
    EXPECT_EQ(out, want);
  };
  amx_emulated::_tile_loadd(4, a.data(), 64);
  amx_emulated::_tile_loadd(6, b.data(), 64);
  amx_emulated::_tile_zero(0);
  amx_emulated::_tile_dpbf16ps(0, 4, 6);
  expect_sums(0, product(none, a, b));
  amx_emulated::_tile_zero(1);
  amx_emulated::_tile_dpbf16ps(1, 6, 4);
  expect_sums(1, product(none, b, a));
  amx_emulated::_tile_loadd(6, c.data(), 64);
  amx_emulated::_tile_zero(1);
  amx_emulated::_tile_dpbf16ps(1, 4, 6);
  expect_sums(1, product(none, a, c));
  amx_emulated::_tile_dpbf16ps(4, 6, 1);  // now sums themselves
  const Words sums = product(a, c, product(none, a, c));
  expect_sums(4, sums);
  amx_emulated::_tile_zero(1);
  amx_emulated::_tile_dpbf16ps(1, 4, 6);
  expect_sums(1, product(none, sums, c));
  amx_emulated::_tile_zero(4);
  amx_emulated::_tile_dpbf16ps(1, 4, 6);
  expect_sums(1, product(none, sums, c));
  amx_emulated::_tile_release();
}

TEST(EmulatedAmx, SmallTilesTouchOnlyTheirRowsAndColumns) {
  Configuration configuration;
  configuration.rows[0] = configuration.rows[4] = 3;  // sums [3, 5], a [3, 2 x 2], b [2, 5] pairs
  configuration.row_bytes[0] = configuration.row_bytes[6] = 20;
  configuration.rows[6] = 2, configuration.row_bytes[4] = 8;
  amx_emulated::_tile_loadconfig(&configuration);
  const std::vector<std::uint32_t> ones(64, 0x3f803f80);
  std::vector<float> out(64, -1);
  amx_emulated::_tile_zero(0);
  amx_emulated::_tile_loadd(4, ones.data(), 32);
  amx_emulated::_tile_loadd(6, ones.data(), 32);
  amx_emulated::_tile_dpbf16ps(0, 4, 6);
  amx_emulated::_tile_stored(0, out.data(), 32);
  amx_emulated::_tile_release();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], i / 8 < 3 && i % 8 < 5 ? 4 : -1) << i;
}

TEST(EmulatedAmx, WhatTheProcessorFaultsOnIsRefused) {
  const auto refused = [](const auto& use, const char* words) {
    try {
      use();
      ADD_FAILURE() << "not refused: " << words;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(words));
    }
  };
  refused([] { amx_emulated::_tile_zero(0); }, "no configuration was loaded");
  Configuration configuration;
  configuration.rows[6] = 8;
  configuration.rows[7] = 0, configuration.row_bytes[7] = 0;
  amx_emulated::_tile_loadconfig(&configuration);
  refused([] { amx_emulated::_tile_dpbf16ps(0, 4, 6); }, "shapes do not fit");
  refused([] { amx_emulated::_tile_dpbf16ps(0, 4, 4); }, "two are one");
  refused([] { amx_emulated::_tile_zero(7); }, "leaves out");
  configuration.palette = 2;
  refused([&] { amx_emulated::_tile_loadconfig(&configuration); }, "another palette");
  amx_emulated::_tile_release();
  refused([] { amx_emulated::_tile_zero(0); }, "no configuration was loaded");
}

// [40, 100] x [100, 70] by the tile code itself, with either operand packed by the task.
std::vector<bf16> multiply(const AmxCode& code, amx::Side inner_side) {
  constexpr std::int64_t m = 40, n = 70, k = 100;
  std::vector<bf16> a(m * k), b(n * k), c(m * n);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = bf16(static_cast<float>(normal(1, 1, i)));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = bf16(static_cast<float>(normal(1, 2, i)));
  amx::Operand inner{a.data(), m, k, k, true, amx::Side::a};
  amx::Operand outer{b.data(), n, k, k, true, amx::Side::b};
  if (inner_side == amx::Side::b) std::swap(inner, outer);
  const std::int64_t panel_bytes = amx::steps_of(k) * amx::step_bytes;
  struct alignas(64) Line {
    char bytes[64];
  };
  std::vector<Line> packed(amx::panels_of(outer.vectors) * panel_bytes / 64);
  std::vector<Line> scratch(amx::scratch_bytes / 64);
  char* const panels = packed[0].bytes;
  code.pack(panels, panel_bytes, outer, {0, outer.vectors}, {0, k});
  code.run({inner,
            {0, inner.vectors},
            panels,
            {0, outer.vectors},
            {c.data(), n, m, n, false, false, false, nullptr},
            scratch[0].bytes});
  return c;
}

TEST(EmulatedAmx, GivesTheBitsOfAProcessorThatHasIt) {
  if (best_isa() != Isa::amx) GTEST_SKIP() << "this processor has no AMX";
  for (const amx::Side inner : {amx::Side::a, amx::Side::b}) {
    const auto here = multiply(processors_amx(), inner), there = multiply(*emulated_amx(), inner);
    EXPECT_EQ(std::memcmp(here.data(), there.data(), here.size() * sizeof(bf16)), 0);
  }
}

}  // namespace
}  // namespace trireme::cpu

#endif
