// Tests of our RandomState against numpy's draws (data/make_numpy_golden.py).
#include "data/numpy_random.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "base/file.h"

namespace trireme {
namespace {

using nlohmann::json;

class NumpyRandomGolden : public ::testing::TestWithParam<int> {};

TEST_P(NumpyRandomGolden, DrawsAreEqual) {
  const json golden =
      json::parse(read_file(TRIREME_TEST_DATA "/numpy_golden.json"))["draws"][GetParam()];
  NumpyRandom random(golden["seed"].get<std::uint32_t>());
  for (const json& word : golden["words"]) EXPECT_EQ(random.next32(), word.get<std::uint32_t>());
  for (const json& value : golden["random"]) EXPECT_EQ(random.random(), value.get<double>());
  const std::pair<std::int64_t, std::int64_t> limits[] = {
      {0, 1}, {1, 4}, {5, 1000}, {0, std::int64_t{1} << 32}, {0, std::int64_t{1} << 40}};
  int i = 0;
  for (const json& value : golden["randint"]) {
    const auto [low, high] = limits[i++ % 5];
    EXPECT_EQ(random.randint(low, high), value.get<std::int64_t>());
  }
  std::vector<std::int32_t> small(20);
  std::iota(small.begin(), small.end(), 0);
  random.shuffle(std::span(small));
  EXPECT_EQ(small, golden["shuffle"].get<std::vector<std::int32_t>>());
  const double sum = 1.0 + 1.0 / 2 + 1.0 / 3;
  const double p[] = {1.0 / sum, 1.0 / 2 / sum, 1.0 / 3 / sum};
  for (const json& value : golden["choice"]) EXPECT_EQ(random.choice(p), value.get<std::int64_t>());
  std::vector<std::uint32_t> big(100003);
  std::iota(big.begin(), big.end(), 0u);
  random.shuffle(std::span(big));
  EXPECT_EQ(crc32(0, reinterpret_cast<const Bytef*>(big.data()), static_cast<uInt>(big.size() * 4)),
            golden["big_shuffle_crc"].get<std::uint32_t>());
  EXPECT_EQ(random.random(), golden["after"].get<double>());
}

INSTANTIATE_TEST_SUITE_P(Seeds, NumpyRandomGolden, ::testing::Values(0, 1, 2));

TEST(MersenneTwister, EqualsTheStandardLibrarys) {
  for (const std::uint32_t seed : {0u, 1u, 5489u, 4294967295u}) {
    MersenneTwister ours(seed);
    std::mt19937 standard(seed);
    for (int i = 0; i < 5000; ++i) ASSERT_EQ(ours.next(), standard()) << "seed " << seed;
  }
}

TEST(NumpyRandom, ShuffleSwapsEachElementWithOneDrawBelowIt) {
  for (const std::size_t count : {2u, 3u, 63u, 64u, 65u, 66u, 128u, 129u, 1000u, 70'000u}) {
    NumpyRandom random(7), draws(7);
    std::vector<std::uint32_t> shuffled(count);
    std::iota(shuffled.begin(), shuffled.end(), 0u);
    std::vector<std::uint32_t> expected = shuffled;
    random.shuffle(std::span(shuffled));
    for (std::size_t i = count; i-- > 1;) std::swap(expected[i], expected[draws.interval(i)]);
    EXPECT_EQ(shuffled, expected) << count;
    EXPECT_EQ(random.next32(), draws.next32()) << count;
  }
}

TEST(NumpyRandom, ShuffleOfNothingDrawsNothing) {
  NumpyRandom a(5), b(5);
  std::vector<int> none, one{7};
  a.shuffle(std::span(none));
  a.shuffle(std::span(one));
  EXPECT_EQ(a.next32(), b.next32());
}

}  // namespace
}  // namespace trireme
