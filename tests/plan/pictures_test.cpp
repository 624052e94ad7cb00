// Tests that pictures of plans show what the plan states.
#include "plan/pictures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/small_config.h"
#include "runtime/memory.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Pictures, NameWhatTheyShow) {
  const Config config = small({"run.device=hip", "parallel.pp=2", "parallel.zero=1",
                               "model.hidden_size=512", "train.micro_batch_size=1"});
  const Machine machine = find_machine("lumi-g");
  const LayoutPlan plan = plan_layout(config, 4, machine.target);
  const std::string memory = draw_memory(plan, std::int64_t{1} << 30);
  EXPECT_THAT(memory, HasSubstr(">pp 1<"));
  EXPECT_THAT(memory, HasSubstr(">master weights<"));
  EXPECT_THAT(memory, HasSubstr(">1.00 GiB<"));
  const RankPlan& first = plan.ranks[0];
  EXPECT_THAT(memory, HasSubstr(bytes_to_text(first.device_bytes())));
  EXPECT_THAT(draw_memory(plan, 0), Not(HasSubstr("dasharray")));

  const TimePlan time = plan_time(plan, config, machine, find_stack("trireme"));
  const std::string seconds = draw_time(time);
  EXPECT_THAT(seconds, HasSubstr("% busy<"));
  EXPECT_THAT(seconds, HasSubstr(">other kernels<"));
  EXPECT_THAT(seconds, HasSubstr("seconds<"));
  const FoundLayout found{{config.parallel, 1}, 0, time};
  EXPECT_THAT(draw_layouts(std::span(&found, 1), 4), HasSubstr(">tp 1 pp 2 dp 2, 1f1b, ZeRO 1"));
}

}  // namespace
}  // namespace trireme
