// Tests that the known product equals integer arithmetic, and that bad nodes are recognized.
#include "operations/node_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "operations/known_product.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(KnownProduct, IsThatOfWholeNumbers) {
  const KnownProduct known;
  const LinearShape& s = KnownProduct::shape;
  std::vector<float> y;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t o = 0; o < s.out; ++o) {
      std::int32_t sum = 0;
      for (std::int64_t i = 0; i < s.in; ++i)
        sum += static_cast<std::int32_t>(known.x[r * s.in + i]) *
               static_cast<std::int32_t>(known.weight[o * s.in + i]);
      y.push_back(static_cast<float>(sum));
    }
  }
  EXPECT_EQ(hash64(y.data(), y.size() * sizeof(float)), KnownProduct::hash)
      << std::hex << hash64(y.data(), y.size() * sizeof(float));
}

CheckedRank rank_on(const std::string& host, double factor = 1) {
  return {host, {{100 * factor, 50, 10, 2}, 0, 300}, ""};
}

TEST(JudgeNodes, FindsNoFaultWithNodesThatAreAlike) {
  const std::vector<CheckedRank> ranks = {rank_on("a"), rank_on("a", 0.9), rank_on("b", 1.1)};
  const NodeReport report = judge_nodes(ranks, 0.7);
  ASSERT_THAT(report.hosts, SizeIs(2));
  for (const CheckedHost& host : report.hosts) EXPECT_THAT(host.faults, IsEmpty());
  EXPECT_EQ(report.median[0], 100);
}

TEST(JudgeNodes, NamesTheSlowTheWrongAndTheBroken) {
  std::vector<CheckedRank> ranks = {rank_on("a"), rank_on("b", 0.5), rank_on("c"), rank_on("d"),
                                    rank_on("e")};
  ranks[2].measure.wrong = 1;
  ranks[3].measure.speed[2] = 1;
  ranks[4].problem = "storage: no space left";
  const NodeReport report = judge_nodes(ranks, 0.7);
  EXPECT_THAT(report.hosts[0].faults, IsEmpty());
  EXPECT_EQ(report.hosts[1].faults.at(0),
            "rank 1: products slow: 50 GFLOP/s, 50% of the median (100)");
  EXPECT_THAT(report.hosts[2].faults.at(0),
              HasSubstr("rank 2: matrix products are WRONG: 1 of 300"));
  EXPECT_THAT(report.hosts[3].faults.at(0), HasSubstr("link to its neighbors slow"));
  EXPECT_EQ(report.hosts[4].faults.at(0), "rank 4: storage: no space left");
}

Reach reach_of(std::vector<std::string> hosts, std::vector<std::pair<int, int>> dead) {
  Reach reach;
  reach.hosts = std::move(hosts);
  reach.dead = std::move(dead);
  return reach;
}

TEST(CutOffHosts, AreThoseWithMostDeadLinks) {
  const auto bad = cut_off_hosts(reach_of({"a", "b", "c", "d"}, {{0, 1}, {1, 2}, {1, 3}}));
  ASSERT_THAT(bad, SizeIs(1));
  EXPECT_EQ(bad[0].host, "b");
  EXPECT_THAT(bad[0].faults, ElementsAre("rank 1: no messages are exchanged with rank 0 (a), rank "
                                         "2 (c) and rank 3 (d)"));
}

TEST(CutOffHosts, OfTheTwoEndsOfALinkTheLastIsNamedWithTheOther) {
  const auto bad = cut_off_hosts(reach_of({"a", "b", "c"}, {{0, 1}}));
  ASSERT_THAT(bad, SizeIs(1));
  EXPECT_EQ(bad[0].host, "b");
  EXPECT_THAT(bad[0].faults, ElementsAre("rank 1: no messages are exchanged with rank 0 (a)"));
}

TEST(CutOffHosts, SeveralRanksOfAHostAreOneAndUnknownOnesApart) {
  const auto bad = cut_off_hosts(
      reach_of({"a", "a", "b", "b", "", ""}, {{0, 2}, {0, 3}, {1, 2}, {1, 3}, {0, 4}, {0, 5}}));
  ASSERT_THAT(bad, SizeIs(1));
  EXPECT_EQ(bad[0].host, "a");
  EXPECT_THAT(bad[0].faults,
              ElementsAre("rank 0: no messages are exchanged with rank 2 (b), rank 3 (b), rank 4 "
                          "and rank 5",
                          "rank 1: no messages are exchanged with rank 2 (b) and rank 3 (b)"));
  EXPECT_THAT(cut_off_hosts(reach_of({"a", "", ""}, {{0, 1}, {0, 2}})), SizeIs(1));
  EXPECT_THAT(cut_off_hosts(reach_of({"a", "b", "", ""}, {{0, 2}, {1, 2}, {0, 3}, {1, 3}})),
              SizeIs(2));
}

TEST(JudgeNodes, OfTwoTheSlowerIsNamed) {
  const std::vector<CheckedRank> ranks = {rank_on("a", 0.5), rank_on("b")};
  const NodeReport report = judge_nodes(ranks, 0.7);
  EXPECT_THAT(report.hosts[0].faults, SizeIs(1));
  EXPECT_THAT(report.hosts[1].faults, IsEmpty());
}

TEST(JudgeNodes, ComparesOnlyWhatWasMeasured) {
  std::vector<CheckedRank> ranks = {rank_on("a"), rank_on("a")};
  ranks[1].measure.speed[3] = -1;
  EXPECT_THAT(judge_nodes(ranks, 0.7).hosts[0].faults, IsEmpty());
}

}  // namespace
}  // namespace trireme
