// Tests of blends against golden files, and of their notation.
#include "data/blend/blend.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "data/temp_folder.h"

namespace trireme {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using testing_data::expect_error;

TEST(Blend, EqualsGoldenBlends) {
  const json golden = json::parse(read_file(TRIREME_TEST_DATA "/numpy_golden.json"));
  for (const json& test : golden["blends"]) {
    const auto weights = test["weights"].get<std::vector<double>>();
    const std::vector<double> share = normalized(weights);
    const std::int64_t size = test["size"];
    for (std::size_t d = 0; d < weights.size(); ++d) {
      EXPECT_EQ(blend_share(size, share[d]), test["share"][d].get<std::int64_t>());
      EXPECT_EQ(blend_supply(size, share[d]), test["supply"][d].get<std::int64_t>());
    }
    const BlendOrder order = build_blend_order(share, size);
    const auto crc = [](auto span) {
      return static_cast<std::uint32_t>(
          crc32_z(0, reinterpret_cast<const Bytef*>(span.data()), span.size_bytes()));
    };
    EXPECT_EQ(crc(order.datasets), test["dataset_crc"].get<std::uint32_t>());
    EXPECT_EQ(crc(order.samples), test["sample_crc"].get<std::uint32_t>());
    for (std::size_t i = 0; i < test["head"].size(); ++i)
      EXPECT_EQ(order.datasets[i], test["head"][i].get<int>());
  }
}

// Returns the dataset of each step by definition: compares the lags of all datasets.
std::vector<std::int16_t> by_definition(const std::vector<double>& weights, std::int64_t size) {
  const std::vector<double> share = normalized(weights);
  std::vector<double> taken(share.size(), 0);
  std::vector<std::int16_t> order;
  for (std::int64_t i = 0; i < size; ++i) {
    const double step = std::max(static_cast<double>(i), 1.0);
    std::size_t best = 0;
    for (std::size_t d = 1; d < share.size(); ++d) {
      if (share[d] * step - taken[d] > share[best] * step - taken[best]) best = d;
    }
    ++taken[best];
    order.push_back(static_cast<std::int16_t>(best));
  }
  return order;
}

TEST(Blend, EqualsTheDefinition) {
  std::mt19937_64 random(38);
  std::normal_distribution<double> normal;
  for (const int datasets : {1, 2, 3, 17, 60, 500, 2419}) {
    for (int kind = 0; kind < 6; ++kind) {
      std::vector<double> weights;
      for (int d = 0; d < datasets; ++d) {
        const double distinct[] = {1.0,
                                   std::exp(1.5 * normal(random)),
                                   1.0 / (1 + d),
                                   static_cast<double>(1 + random() % 7),
                                   d == 0 ? 1e6 : std::exp(normal(random)),
                                   std::exp(20 * normal(random))};
        weights.push_back(distinct[kind]);
      }
      const std::int64_t size = datasets < 1000 ? 5000 : 3000;
      const BlendOrder order = build_blend_order(weights, size);
      const std::vector<std::int16_t> expected = by_definition(weights, size);
      std::vector<std::int64_t> taken(weights.size(), 0);
      for (std::int64_t i = 0; i < size; ++i) {
        ASSERT_EQ(order.datasets[i], expected[i]) << datasets << " kind " << kind << " step " << i;
        ASSERT_EQ(order.samples[i], taken[expected[i]]++);
      }
    }
  }
}

TEST(Blend, ReadsBothNotations) {
  EXPECT_THAT(parse_blend({"a"}).prefixes, ElementsAre("a"));
  EXPECT_THAT(parse_blend({"a", "b"}).prefixes, ElementsAre("a", "b"));
  EXPECT_TRUE(parse_blend({"a", "b"}).weights.empty());
  const BlendSpec spec = parse_blend({"0.3", "a", "7", "b"});
  EXPECT_THAT(spec.prefixes, ElementsAre("a", "b"));
  EXPECT_THAT(spec.weights, ElementsAre(0.3, 7.0));
  // An odd number of entries: names that happen to be numbers remain names.
  EXPECT_THAT(parse_blend({"1", "2", "3"}).prefixes, ElementsAre("1", "2", "3"));
}

TEST(Blend, RefusesHalfGivenOrWrongWeights) {
  expect_error(ExitCode::bad_input, {"data.path", "0.7"}, [] { parse_blend({"0.7", "a", "0.3"}); });
  expect_error(ExitCode::bad_input, {"'x'", "'b'"}, [] { parse_blend({"0.3", "a", "x", "b"}); });
  expect_error(ExitCode::bad_input, {"'0'", "'a'"}, [] { parse_blend({"0", "a"}); });
  expect_error(ExitCode::bad_input, {"'-1'"}, [] { parse_blend({"-1", "a", "2", "b"}); });
  expect_error(ExitCode::bad_input, {"'inf'"}, [] { parse_blend({"inf", "a", "2", "b"}); });
}

}  // namespace
}  // namespace trireme
