// Tests of what a run with multi-token prediction reports.
#include <gmock/gmock.h>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(Workspace, LossesOfFurtherTokensAreReportedBesideTheLoss) {
  prepare_data();
  const Outcome outcome =
      train("run", {"train.iters=2", "optimizer.warmup_iters=0", "model.position=rope",
                    "model.mtp_layers=2", "log.level=debug", "train.log_interval=1"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("(mtp_1 "));
  const std::string lines = metrics("run");
  EXPECT_EQ(values_of(lines, "loss").size(), 2u);
  for (const char* loss : {"mtp_1_loss", "mtp_2_loss"})
    EXPECT_THAT(values_of(lines, loss), testing::Each(testing::Gt(1))) << loss;
  EXPECT_THAT(lines, AllOf(Not(HasSubstr("lm_loss")), Not(HasSubstr("mtp_3_loss"))));
}

}  // namespace
}  // namespace trireme::testing_cli
