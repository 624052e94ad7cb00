// Tests that a rank which computes slowly or wrongly is named, by the node check and in training.
#include "jobs.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class NodeCheck : public Jobs {
 protected:
  // Runs `trireme doctor --nodes` on three ranks, one of which is disturbed.
  Outcome check(const std::string& aim) const {
    const std::string command = "cd " + folder_.string() +
                                " && TRIREME_THREADS=1 TRIREME_TEST_AIM='" + aim + "' " + mpirun() +
                                " -n 3 env LD_PRELOAD=" TRIREME_TEST_AIM " " TRIREME_BINARY
                                " doctor --nodes --seconds 0.1 --slow 0.3 --hosts good >out 2>&1";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), read("out")};
  }
};

TEST_F(NodeCheck, NamesTheRankWhoseProductsAreWrong) {
  const Outcome outcome = check("1 flip 2 0");
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr(": rank 1: matrix products are WRONG: 1 of "));
  EXPECT_THAT(outcome.out, Not(HasSubstr("rank 0: matrix products are WRONG")));
  EXPECT_TRUE(fs::exists(path("good")));
  EXPECT_EQ(read("good"), "");  // all ranks are on this node
}

TEST_F(NodeCheck, NamesTheRankThatIsSlow) {
  const Outcome outcome = check("2 nap 0 40000");
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr(": rank 2: products slow: "));
  EXPECT_THAT(outcome.out, Not(HasSubstr("WRONG")));
}

TEST_F(NodeCheck, TrainingNamesTheRankThatOthersWaitFor) {
  const std::string settings = "train.iters=8 train.log_interval=2 train.eval_iters=0";
  ASSERT_EQ(train_on("whole", {2, ""}, settings).code, 0);
  Program program(job_arguments("run", {2, ""}, settings), path("run.out"),
                  {{"TRIREME_THREADS", "1"},
                   {"TRIREME_SLOW_RANK_SECONDS", "0.001"},
                   {"LD_PRELOAD", TRIREME_TEST_AIM},
                   {"TRIREME_TEST_AIM", "1 nap 0 300"}});
  const Outcome outcome = wait_for(program, 60);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(read("run/log.txt"), HasSubstr("warning: rank 1 ("));
  EXPECT_EQ(count_of(read("run/log.txt"), "is slow: its own work"), 1);
  EXPECT_EQ(metrics("run"), metrics("whole"));
}

}  // namespace
}  // namespace trireme::testing_cli
