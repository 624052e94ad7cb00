// Tests of the possible parameter placements in Megatron's distributed optimizer, given only sizes.
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

// If a bucket ends with its last parameter, there is no gap before the next bucket.
TEST(MegatronPlacements, BucketsFollowEachOther) {
  // Buckets end once they have 110 elements or more: [10, 100], [64, 1].
  EXPECT_THAT(places({{10}, {100}, {64}, {1}}, 164 + 65),
              ElementsAre(ElementsAre(0, 64, 164, 228)));
}

TEST(MegatronPlacements, ASharedEmbeddingHasABucketOfItsOwn) {
  // The shared parameter follows 10 elements and their gap; the next one starts where it ends.
  EXPECT_THAT(places({{10}, {100, true}, {20}}, 64 + 100 + 20),
              ElementsAre(ElementsAre(0, 64, 164)));
}

TEST(MegatronPlacements, WhatFillsNoBufferHasNone) {
  EXPECT_THAT(places({{10}, {100}}, 163), IsEmpty());
  EXPECT_THAT(places({{64}, {128}}, 193), IsEmpty());
  EXPECT_THAT(places({}, 1), IsEmpty());
}

// All sizes are aligned, as in models of common widths: bucket sizes then make no difference.
TEST(MegatronPlacements, AlignedSizesNeedNoSearch) {
  const std::vector<MegatronBufferPart> parts(100'000, {128});
  const auto found = places(parts, 12'800'000);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].back(), 12'800'000 - 128);
}

// The search ends quickly even for a maliciously large number of odd sizes.
TEST(MegatronPlacements, TheSearchIsBounded) {
  std::vector<MegatronBufferPart> parts;
  for (std::int64_t i = 0; i < 20'000; ++i) parts.push_back({1 + i * 7919 % 997});
  EXPECT_FALSE(megatron_placements(parts, 1).has_value());
}

}  // namespace
}  // namespace trireme
