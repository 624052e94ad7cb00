// Where the parameters of Megatron's distributed optimizer can lie, by their sizes alone.
#include <gmock/gmock.h>

#include "formats/megatron/distributed.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

MegatronPlacements places(const std::vector<MegatronBufferPart>& parts, std::int64_t total) {
  const auto found = megatron_placements(parts, total);
  EXPECT_TRUE(found.has_value());
  return found.value_or(MegatronPlacements());
}

TEST(MegatronPlacements, EachBeginsAtAMultipleOf64) {
  EXPECT_THAT(places({{10}, {100}, {64}, {1}}, 257), ElementsAre(ElementsAre(0, 64, 192, 256)));
}

TEST(MegatronPlacements, OldReleasesLeaveNoGaps) {
  EXPECT_THAT(places({{10}, {100}, {64}}, 174), ElementsAre(ElementsAre(0, 10, 110)));
}

// A bucket that ends with its last parameter leaves no gap before the next one.
TEST(MegatronPlacements, BucketsFollowEachOther) {
  // Of at most 110 elements, which three parameters have: [10, 100], [64, 1].
  EXPECT_THAT(places({{10}, {100}, {64}, {1}}, 164 + 65),
              ElementsAre(ElementsAre(0, 64, 164, 228)));
}

TEST(MegatronPlacements, ASharedEmbeddingHasABucketOfItsOwn) {
  // After 10 elements and their gap; the next one begins where it ends.
  EXPECT_THAT(places({{10}, {100, true}, {20}}, 64 + 100 + 20),
              ElementsAre(ElementsAre(0, 64, 164)));
}

TEST(MegatronPlacements, WhatFillsNoBufferHasNone) {
  EXPECT_THAT(places({{10}, {100}}, 163), IsEmpty());
  EXPECT_THAT(places({{64}, {128}}, 193), IsEmpty());
  EXPECT_THAT(places({}, 1), IsEmpty());
}

// All sizes are aligned, as in models of usual widths: whatever the buckets were.
TEST(MegatronPlacements, AlignedSizesNeedNoSearch) {
  const std::vector<MegatronBufferPart> parts(100'000, {128});
  const auto found = places(parts, 12'800'000);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].back(), 12'800'000 - 128);
}

// A hostile number of odd sizes ends soon.
TEST(MegatronPlacements, TheSearchIsBounded) {
  std::vector<MegatronBufferPart> parts;
  for (std::int64_t i = 0; i < 20'000; ++i) parts.push_back({1 + i * 7919 % 997});
  EXPECT_FALSE(megatron_placements(parts, 1).has_value());
}

}  // namespace
}  // namespace trireme
