// Tests of the distribution of processors over the processes of a machine.
#include "comm/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <thread>

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Cores, OwnProcessorsAreThoseOfTheMask) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  const std::vector<int> own = own_processors();
  EXPECT_EQ(static_cast<int>(own.size()), CPU_COUNT(&set));
  for (const int processor : own) EXPECT_TRUE(CPU_ISSET(processor, &set));
}

TEST(Cores, PartsCoverAllAndNothingTwice) {
  const std::vector<int> processors = {0, 4, 1, 5, 2, 6, 3, 7};  // four cores with two threads each
  EXPECT_THAT(part_of(processors, 0, 2), ElementsAre(0, 4, 1, 5));
  EXPECT_THAT(part_of(processors, 1, 2), ElementsAre(2, 6, 3, 7));
  EXPECT_THAT(part_of(processors, 0, 3), ElementsAre(0, 4));
  EXPECT_THAT(part_of(processors, 1, 3), ElementsAre(1, 5, 2));
  EXPECT_THAT(part_of(processors, 2, 3), ElementsAre(6, 3, 7));
  EXPECT_THAT(part_of(processors, 0, 1), testing::SizeIs(8));
  EXPECT_THAT(part_of(processors, 8, 9), IsEmpty());
  EXPECT_THAT(part_of({}, 0, 1), IsEmpty());
}

// Runs in its own thread, so that the affinity mask disappears with it.
std::vector<int> shared(const std::string& value, int index, int count) {
  std::vector<int> result;
  std::thread([&] {
    setenv(share_processors_variable, value.c_str(), 1);
    share_processors(index, count);
    unsetenv(share_processors_variable);
    result = own_processors();
  }).join();
  return result;
}

TEST(Cores, PartsLieInTheNodesOfTheirGpus) {
  const auto near = [](int node) {
    return node == 0   ? std::vector{0, 1, 2, 3}
           : node == 1 ? std::vector{4, 5, 6, 7}
                       : std::vector<int>{};
  };
  // GPUs 0 and 2 are near node 1, GPU 1 near node 0.
  const std::vector<int> nodes = {1, 0, 1};
  EXPECT_EQ(near_part_of(nodes, 0, near), (std::vector{4, 5}));
  EXPECT_EQ(near_part_of(nodes, 1, near), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(near_part_of(nodes, 2, near), (std::vector{6, 7}));
  // All ranks or none: a node is unknown, or has fewer processors than ranks.
  EXPECT_TRUE(near_part_of({1, -1}, 0, near).empty());
  EXPECT_TRUE(near_part_of({1, 2}, 0, near).empty());
  EXPECT_TRUE(near_part_of({0, 0, 0, 0, 0}, 0, near).empty());
}

TEST(Cores, AProcessOfNprocTakesItsPart) {
  const std::vector<int> own = own_processors();
  const int count = static_cast<int>(own.size());
  EXPECT_EQ(shared(std::to_string(count), count - 1, count), std::vector{own.back()});
}

TEST(Cores, WhoIsBoundAlreadyOrHasTooFewStays) {
  const std::vector<int> own = own_processors();
  const int count = static_cast<int>(own.size());
  EXPECT_EQ(shared(std::to_string(count + 1), 0, 2), own);
  EXPECT_EQ(shared("many", 0, 2), own);
  EXPECT_EQ(shared(std::to_string(count), 0, count + 1), own);
}

}  // namespace
}  // namespace trireme
