// Tests of the memory that ranks use on the hosts of their GPUs, against what these have.
#include "plan/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "plan/small_config.h"
#include "plan/verdict.h"
#include "runtime/devices.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t endless = std::numeric_limits<std::int64_t>::max();

Config offloaded(const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"run.device=hip", "offload.optimizer=host",
                                  "offload.activations=host", "checkpoint.async=true"};
  all.insert(all.end(), more.begin(), more.end());
  return small(all);
}

LayoutPlan plan_of(const Config& config, int ranks) {
  return plan_layout(config, ranks, target_of(DeviceKind::hip));
}

std::int64_t kept(const RankPlan& rank) {
  return rank.host_bytes();
}

TEST(HostMemory, IsThatOfTheFullestNode) {
  EXPECT_EQ(on_fullest_node({3}, 4, 8), 12);        // a partially filled node
  EXPECT_EQ(on_fullest_node({10, 1}, 16, 8), 80);   // one node per position
  EXPECT_EQ(on_fullest_node({10, 1}, 8, 8), 44);    // both positions on one node
  EXPECT_EQ(on_fullest_node({1, 5, 1}, 6, 4), 12);  // the node boundary is within a position
  EXPECT_EQ(on_fullest_node({1, 1, 7}, 12, 3), 21);
}

TEST(HostMemory, DecidesWhetherALayoutFits) {
  const Config config = offloaded();
  const LayoutPlan plan = plan_of(config, 4);
  const std::int64_t needed = 4 * kept(plan.ranks[0]);
  const Verdict fits = judge(plan, config, 4, endless, {needed, 4});
  EXPECT_EQ(fits.on_host, needed);
  EXPECT_TRUE(fits.fits());
  EXPECT_THAT(to_text(fits),
              HasSubstr("of host memory per node; the fullest node, with 4 ranks, needs"));
  const Verdict short_by_one = judge(plan, config, 4, endless, {needed - 1, 4});
  EXPECT_TRUE(short_by_one.fits_device());
  EXPECT_FALSE(short_by_one.fits());
  // Two ranks per node need half of it; if the host's memory is unknown, nothing is compared.
  EXPECT_TRUE(judge(plan, config, 4, endless, {needed / 2, 2}).fits());
  EXPECT_TRUE(judge(plan, config, 4, endless).fits());
}

// Each proposal is planned: it uses less host memory, and the rank's memory still suffices.
TEST(HostMemory, ProposesWhatWouldFit) {
  const Config config = offloaded();
  const LayoutPlan plan = plan_of(config, 4);
  const NodeHost host{4 * kept(plan.ranks[0]) - 1, 4};
  const Verdict verdict = judge(plan, config, 4, endless, host);
  const std::string text = to_text(verdict);
  EXPECT_THAT(text, HasSubstr("host memory per rank: optimizer states"));
  EXPECT_THAT(text, HasSubstr("copy for checkpoints"));
  EXPECT_THAT(text, Not(HasSubstr("the largest regions")));
  ASSERT_FALSE(verdict.fitting.empty());
  EXPECT_EQ(verdict.fitting[0].overrides, std::vector<std::string>{"checkpoint.async=false"});
  for (const Alternative& one : verdict.fitting) {
    const Config changed = offloaded(one.overrides);
    EXPECT_TRUE(judge(plan_of(changed, 4), changed, 4, endless, host).fits()) << one.overrides[0];
  }
}

// Without offloading, host memory is not checked, and the verdict does not mention it.
TEST(HostMemory, IsNoMatterWithoutOffload) {
  const Config config = small({"run.device=hip"});
  const LayoutPlan plan = plan_of(config, 4);
  const Verdict verdict = judge(plan, config, 4, endless, {std::int64_t{1} << 40, 4});
  EXPECT_TRUE(verdict.fits());
  EXPECT_THAT(to_text(verdict), Not(HasSubstr("host")));
}

}  // namespace
}  // namespace trireme
