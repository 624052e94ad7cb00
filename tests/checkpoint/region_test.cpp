// Tests of the overlap and tiling of regions, against plain loops over single elements.
#include "checkpoint/region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace trireme {
namespace {

using testing::HasSubstr;

// Returns the positions of a region's elements in the flattened tensor, in storage order.
std::vector<std::int64_t> positions(const Shape& tensor, const Region& region) {
  std::vector<std::int64_t> out;
  for (std::int64_t k = region.begin; k < region.end; ++k) {
    std::int64_t rest = k, position = 0, stride = 1;
    for (int i = tensor.rank() - 1; i >= 0; --i) {
      position += (region.offset[i] + rest % region.shape[i]) * stride;
      rest /= region.shape[i];
      stride *= tensor[i];
    }
    out.push_back(position);
  }
  return out;
}

Region random_region(const Shape& tensor, std::mt19937& random) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  Region region = Region::whole(tensor);
  for (int i = 0; i < tensor.rank(); ++i) {
    if (draw(0, 1)) continue;  // covers the whole dimension
    region.offset[i] = draw(0, tensor[i] - 1);
    region.shape[i] = draw(1, tensor[i] - region.offset[i]);
  }
  region.end = region.shape.count();
  if (draw(0, 1)) {
    region.begin = draw(0, region.shape.count());
    region.end = draw(region.begin, region.shape.count());
  }
  return region;
}

TEST(Overlap, AgreesWithSingleElements) {
  std::mt19937 random(1);
  const std::vector<Shape> tensors{{}, {7}, {5, 6}, {3, 4, 5}, {2, 3, 1, 4}};
  for (int round = 0; round < 4000; ++round) {
    const Shape& tensor = tensors[static_cast<std::size_t>(round) % tensors.size()];
    const Region src = random_region(tensor, random), dst = random_region(tensor, random);
    std::map<std::int64_t, std::int64_t> src_at;
    const auto src_positions = positions(tensor, src), dst_positions = positions(tensor, dst);
    for (std::size_t i = 0; i < src_positions.size(); ++i) {
      src_at[src_positions[i]] = static_cast<std::int64_t>(i);
    }
    std::map<std::int64_t, std::int64_t> expected, actual;  // position in dst, position in src
    for (std::size_t i = 0; i < dst_positions.size(); ++i) {
      const auto it = src_at.find(dst_positions[i]);
      if (it != src_at.end()) expected[static_cast<std::int64_t>(i)] = it->second;
    }
    trireme::Run last{-1, -1, 1};
    for (const trireme::Run& run : overlap(tensor, src, dst)) {
      ASSERT_GE(run.src, last.src + last.count);
      ASSERT_GE(run.dst, last.dst + last.count);
      ASSERT_GT(run.count, 0);
      last = run;
      for (std::int64_t i = 0; i < run.count; ++i) actual[run.dst + i] = run.src + i;
    }
    ASSERT_EQ(actual, expected) << tensor.text() << " " << src.text() << " " << dst.text();
  }
}

TEST(Overlap, OfWholeRowsIsOneRun) {
  const Shape tensor{64, 8, 16};
  EXPECT_EQ(overlap(tensor, Region::whole(tensor), Region::whole(tensor)).size(), 1u);
  EXPECT_EQ(
      overlap(tensor, Region::rectangle({16, 0, 0}, {16, 8, 16}), Region::range(tensor, 1000, 5000))
          .size(),
      1u);
}

TEST(Tiling, AcceptsWhatLayoutsMake) {
  const Shape tensor{8, 6};
  EXPECT_EQ(tiling_fault({}, {Region::whole({})}), "");
  EXPECT_EQ(tiling_fault({0, 3}, {}), "");
  EXPECT_EQ(tiling_fault(tensor, {Region::whole(tensor)}), "");
  // ZeRO over the whole tensor; one rank's range is empty.
  EXPECT_EQ(tiling_fault(tensor, {Region::range(tensor, 20, 48), Region::range(tensor, 7, 7),
                                  Region::range(tensor, 0, 20)}),
            "");
  // ZeRO over one half of a split along dimension 1; the other half is whole.
  Region left_begin = Region::rectangle({0, 0}, {8, 3}), left_end = left_begin;
  left_begin.end = left_end.begin = 10;
  EXPECT_EQ(tiling_fault(tensor, {left_end, Region::rectangle({0, 3}, {8, 3}), left_begin}), "");
}

TEST(Tiling, RefusesHolesAndOverlaps) {
  const Shape tensor{8, 6};
  EXPECT_THAT(tiling_fault(tensor, {}), HasSubstr("48 of its 48 elements are missing"));
  EXPECT_THAT(tiling_fault(tensor, {Region::rectangle({0, 0}, {8, 3})}),
              HasSubstr("24 of its 48 elements are missing"));
  EXPECT_THAT(tiling_fault(tensor, {Region::whole(tensor), Region::whole(tensor)}),
              HasSubstr("there twice"));
  EXPECT_THAT(
      tiling_fault(tensor, {Region::rectangle({0, 0}, {8, 4}), Region::rectangle({0, 3}, {8, 3})}),
      HasSubstr("overlaps"));
  EXPECT_THAT(tiling_fault(tensor, {Region::range(tensor, 0, 20), Region::range(tensor, 21, 48)}),
              HasSubstr("missing"));
  EXPECT_THAT(tiling_fault(tensor, {Region::range(tensor, 0, 20), Region::range(tensor, 19, 48)}),
              HasSubstr("there twice"));
  EXPECT_THAT(tiling_fault(tensor, {Region::range(tensor, 0, 47)}), HasSubstr("47 to 48"));
  EXPECT_THAT(tiling_fault(tensor, {Region::rectangle({4, 0}, {5, 6})}), HasSubstr("leaves"));
  EXPECT_THAT(tiling_fault(tensor, {Region::rectangle({0}, {8})}),
              HasSubstr("has 1 dimension where the tensor [8, 6] has 2"));
  EXPECT_THAT(tiling_fault(tensor, {Region::range(tensor, 0, 49)}), HasSubstr("outside"));
}

}  // namespace
}  // namespace trireme
