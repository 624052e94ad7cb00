// Tests of background saves on several ranks: training waits only for the copy, and reports it.
#include "jobs.h"

namespace trireme::testing_cli {
namespace {

class AsyncSaves : public Jobs {};

TEST_F(AsyncSaves, SaveTheSameBitsAndPrintTheWait) {
  const std::string more = "checkpoint.interval=5 train.iters=20 parallel.numerics=exact ";
  const Layout layout{4, "parallel.pp=2 parallel.schedule=zbv parallel.zero=3"};
  ASSERT_EQ(train_on("whole", {1, ""}, more).code, 0);
  const Outcome outcome = train_on("run", layout, more + "checkpoint.async=true");
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  for (const int step : {5, 10, 15, 20}) {
    SCOPED_TRACE(step);
    const std::string name = step_folder(step);
    EXPECT_THAT(outcome.out, testing::ContainsRegex("saving step " + std::to_string(step) +
                                                    " in the background; training waited [0-9.]+ "
                                                    "s, [0-9.]+ s of it to copy"));
    EXPECT_EQ(count_of(outcome.out, "checkpoints/" + name + " ("), 1) << outcome.out;
    EXPECT_EQ(
        first_difference(folder_ / "run/checkpoints" / name, folder_ / "whole/checkpoints" / name),
        "");
  }
  EXPECT_EQ(metrics("run"), metrics("whole"));
  EXPECT_TRUE(partial_folders(folder_ / "run/checkpoints").empty());
}

}  // namespace
}  // namespace trireme::testing_cli
