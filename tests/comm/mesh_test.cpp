// Tests of the mesh against its definition: coordinates, groups, neighbors, errors, large meshes.
#include "comm/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <numeric>
#include <set>

#include "base/error.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(int ranks, const MeshDegrees& degrees) {
  try {
    fit_degrees(ranks, degrees);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  return "";
}

TEST(Mesh, TensorParallelRanksAreNeighborsAndStagesFarApart) {
  const Mesh mesh({.tp = 2, .cp = 1, .dp_shard = 2, .dp_replicate = 1, .pp = 2});
  ASSERT_EQ(mesh.size(), 8);
  EXPECT_THAT(mesh.group(5, Axes::tp), ElementsAre(4, 5));
  EXPECT_THAT(mesh.group(5, Axes::dp), ElementsAre(5, 7));
  EXPECT_THAT(mesh.group(5, Axes::pp), ElementsAre(1, 5));
  EXPECT_THAT(mesh.group(5, Axes::model), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(mesh.group(5, Axes::stage), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(mesh.group(5, Axes::none), ElementsAre(5));
}

TEST(Mesh, PlacesAndRanksAreInverseForManyShapes) {
  for (const MeshDegrees& d :
       {MeshDegrees{}, MeshDegrees{.tp = 2, .cp = 3, .dp_shard = 4, .dp_replicate = 2, .pp = 3},
        MeshDegrees{.ep = 2, .dp_shard = 6, .pp = 5},
        MeshDegrees{.tp = 8, .cp = 2, .dp_replicate = 3}}) {
    const Mesh mesh(d);
    std::set<int> seen;
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const MeshPlace place = mesh.place_of(rank);
      EXPECT_EQ(mesh.rank_of(place), rank);
      EXPECT_LT(place.tp, d.tp);
      EXPECT_LT(place.pp, d.pp);
      EXPECT_EQ(mesh.dp_index(rank), place.replicate * d.dp_shard + place.shard);
      seen.insert(rank);
    }
    EXPECT_EQ(static_cast<int>(seen.size()), d.tp * d.cp * d.dp() * d.pp);
  }
}

TEST(Mesh, GroupsOfEveryAxisSetPartitionTheWorld) {
  const Mesh mesh({.tp = 2, .cp = 2, .ep = 2, .dp_shard = 4, .dp_replicate = 2, .pp = 3});
  for (unsigned bits = 0; bits < 32; ++bits) {
    const Axes axes = static_cast<Axes>(bits);
    std::vector<int> all;
    for (const std::vector<int>& group : mesh.groups(axes)) {
      ASSERT_EQ(static_cast<int>(group.size()), mesh.group_size(axes));
      EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
      for (std::size_t i = 0; i < group.size(); ++i) {
        EXPECT_EQ(mesh.index_in_group(group[i], axes), static_cast<int>(i));
        EXPECT_EQ(mesh.group(group[i], axes), group);
      }
      all.insert(all.end(), group.begin(), group.end());
    }
    std::sort(all.begin(), all.end());
    std::vector<int> expected(mesh.size());
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
}

TEST(Mesh, EmbeddingGroupJoinsFirstAndLastStage) {
  const Mesh mesh({.tp = 2, .dp_shard = 2, .pp = 4});
  EXPECT_THAT(mesh.embedding_group(1), ElementsAre(1, 13));
  EXPECT_THAT(mesh.embedding_group(13), ElementsAre(1, 13));
  EXPECT_TRUE(mesh.embedding_group(5).empty());
  EXPECT_THAT(Mesh({.tp = 2}).embedding_group(1), ElementsAre(1));
}

TEST(Mesh, RanksThatShareHeadsAreNeighborsInATensorGroup) {
  const Mesh mesh({.tp = 4, .dp_shard = 2, .kv_copies = 2});
  EXPECT_THAT(mesh.kv_group(0), ElementsAre(0, 1));
  EXPECT_THAT(mesh.kv_group(7), ElementsAre(6, 7));
  EXPECT_THAT(Mesh({.tp = 4}).kv_group(2), ElementsAre(2));
}

TEST(Mesh, ExpertGroupsLieInsideACopyOfTheStates) {
  const Mesh mesh({.tp = 2, .cp = 2, .ep = 4, .dp_shard = 2, .dp_replicate = 2});
  EXPECT_THAT(mesh.expert_group(0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(mesh.expert_group(6), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(mesh.expert_dp_group(0), ElementsAre(0, 4, 8, 12));
  EXPECT_THAT(mesh.expert_dp_group(7), ElementsAre(3, 7, 11, 15));
  const Mesh stages({.ep = 2, .dp_shard = 4, .pp = 2});
  EXPECT_THAT(stages.expert_group(5), ElementsAre(4, 5));
  EXPECT_THAT(stages.expert_dp_group(5), ElementsAre(5, 7));
  const Mesh sliced({.ep = 2, .expert_tp = 2, .dp_shard = 8});
  EXPECT_THAT(sliced.expert_group(5), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(sliced.expert_dp_group(5), ElementsAre(1, 5));
  EXPECT_EQ(sliced.text(), "tp 1 x cp 1 x dp 8 (ep 2 x expert_tp 2) x pp 1 = 8 ranks");
}

TEST(Mesh, DataParallelismIsWhatIsLeft) {
  const MeshDegrees d = fit_degrees(16, {.tp = 2, .dp_replicate = 2, .pp = 2});
  EXPECT_EQ(d.dp_shard, 2);
  EXPECT_EQ(d.dp(), 4);
  EXPECT_EQ(Mesh(d).text(), "tp 2 x cp 1 x dp 4 (shard 2 x replicate 2) x pp 2 = 16 ranks");
}

TEST(Mesh, RefusalsProposeDegreesThatFit) {
  EXPECT_THAT(refusal(8, {.tp = 3}), HasSubstr("parallel.tp = 1, 2, 4 or 8"));
  EXPECT_THAT(refusal(8, {.tp = 2, .pp = 3}), HasSubstr("parallel.pp = 1, 2 or 4"));
  EXPECT_THAT(refusal(8, {.tp = 2, .pp = 3}), HasSubstr("Start 6 or 12 ranks"));
  EXPECT_THAT(refusal(4, {.tp = 8}), HasSubstr("Start 8 ranks"));
  EXPECT_THAT(refusal(8, {.ep = 3}), HasSubstr("parallel.ep = 1, 2, 4 or 8"));
  EXPECT_THAT(refusal(8, {.ep = 4, .expert_tp = 4}), HasSubstr("parallel.ep = 1 or 2"));
  EXPECT_THAT(refusal(8, {.expert_tp = 3}), HasSubstr("parallel.expert_tp = 1, 2, 4 or 8"));
  EXPECT_THAT(refusal(8, {.tp = 0}), HasSubstr("parallel.tp is 0"));
  EXPECT_THAT(refusal(8, {.tp = 1 << 30, .cp = 1 << 30, .pp = 1 << 30}), HasSubstr("far more"));
  EXPECT_THAT(refusal(7, {.tp = 3, .pp = 3}), HasSubstr("smaller degrees"));
}

TEST(Mesh, FiveThousandRanksTakeNoTime) {
  // Measures processor time, which is independent of other load. Sanitizers slow it down.
#ifdef TRIREME_ASSERTIONS
  const double limit = 5;
#else
  const double limit = 0.5;
#endif
  const std::clock_t begin = std::clock();
  const Mesh mesh(fit_degrees(5120, {.tp = 8, .dp_replicate = 20, .pp = 1}));
  EXPECT_EQ(mesh.degrees().dp_shard, 32);
  std::int64_t members = 0;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    for (const Axes axes :
         {Axes::tp, Axes::dp_shard, Axes::dp_replicate, Axes::dp, Axes::pp, Axes::model}) {
      members += static_cast<std::int64_t>(mesh.group(rank, axes).size());
    }
    members += static_cast<std::int64_t>(mesh.embedding_group(rank).size());
  }
  EXPECT_EQ(members, std::int64_t{5120} * (8 + 32 + 20 + 640 + 1 + 8 + 1));
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, limit);
}

}  // namespace
}  // namespace trireme
