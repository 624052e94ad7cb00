// Tests of which rank's host is suspected when ranks do not respond.
#include "comm/suspects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Suspects, AreTheRanksThatDoNotAnswer) {
  EXPECT_THAT(suspect_ranks({2}, 0, 4), ElementsAre(2));
  EXPECT_THAT(suspect_ranks({}, 0, 4), IsEmpty());
  EXPECT_THAT(suspect_ranks({1}, 0, 2), ElementsAre(1));
  EXPECT_THAT(suspect_ranks({0}, 1, 2), ElementsAre(0));
}

TEST(Suspects, AreTheRankItselfWhereMostDoNotAnswer) {
  EXPECT_THAT(suspect_ranks({0, 1}, 2, 3), ElementsAre(2));
  EXPECT_THAT(suspect_ranks({2, 3}, 0, 4), ElementsAre(2, 3)) << "half is not most";
}

TEST(Suspects, AreHostsEachOnce) {
  const std::vector<std::string> hosts = {"a", "a", "b", "b", "c", "c"};
  EXPECT_THAT(suspect_hosts({2, 3}, 0, hosts), ElementsAre("b"));
  EXPECT_THAT(suspect_hosts({3, 5}, 0, hosts), ElementsAre("b", "c"));
  EXPECT_THAT(suspect_hosts({0, 1, 2, 3}, 4, hosts), ElementsAre("c"));
  EXPECT_EQ(suspects_text(suspect_hosts({3, 5}, 0, hosts)), "; suspect nodes: b, c");
}

TEST(Suspects, AreNoneWhereOneHostHasAllRanks) {
  EXPECT_THAT(suspect_hosts({1}, 0, {"a", "a"}), IsEmpty());
  EXPECT_EQ(suspects_text({}), "");
}

}  // namespace
}  // namespace trireme
