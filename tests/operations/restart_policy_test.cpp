// Tests of when a run is restarted, and after which delay.
#include "operations/restart_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using testing::HasSubstr;
using Action = Decision::Action;

Ending failure(std::int64_t saved, int code = 1) {
  return {.code = code, .state = "failed", .saved = saved};
}

TEST(RestartPolicy, EndsWithARunThatEndedAsMeant) {
  RestartPolicy policy({.restarts = 3}, 0);
  EXPECT_EQ(policy.after({.code = 0, .state = "done"}).action, Action::end);
  EXPECT_EQ(policy.after({.code = 0, .state = "stopped"}).action, Action::end);
  EXPECT_EQ(policy.after({.code = 3, .state = "interrupted"}).action, Action::end);
  // srun returns another code if it killed ranks that ended after the first one.
  EXPECT_EQ(policy.after({.code = 137, .state = "interrupted"}).action, Action::end);
  EXPECT_EQ(policy.after({.code = 0}).action, Action::end);
  EXPECT_EQ(policy.after({.code = 1, .state = "failed", .asked = true}).action, Action::end);
}

TEST(RestartPolicy, GivesUpWhereNoRestartHelps) {
  RestartPolicy policy({.restarts = 3}, 0);
  const Decision wrong = policy.after({.code = 2, .state = "failed"});
  EXPECT_EQ(wrong.action, Action::give_up);
  EXPECT_THAT(wrong.why, HasSubstr("input is wrong"));
  EXPECT_EQ(policy.after({.code = 127}).action, Action::give_up);
}

TEST(RestartPolicy, WaitsLongerUntilThereIsANewCheckpoint) {
  RestartPolicy policy({.restarts = 3, .first_wait_s = 4, .longest_wait_s = 10}, 20);
  for (const double wait : {4.0, 8.0, 10.0}) {
    const Decision decision = policy.after(failure(20));
    EXPECT_EQ(decision.action, Action::restart);
    EXPECT_EQ(decision.wait_s, wait);
  }
  EXPECT_EQ(policy.after(failure(22)).wait_s, 4);
  EXPECT_EQ(policy.failures(), 1);
}

TEST(RestartPolicy, GivesUpAfterSoManyFailuresWithoutACheckpoint) {
  RestartPolicy policy({.restarts = 2}, 0);
  EXPECT_EQ(policy.after(failure(0)).action, Action::restart);
  EXPECT_EQ(policy.after(failure(5)).action, Action::restart);
  EXPECT_EQ(policy.after(failure(5)).action, Action::restart);
  const Decision last =
      policy.after({.code = -9, .state = "failed", .reason = "rank 1: no space", .saved = 5});
  EXPECT_EQ(last.action, Action::give_up);
  EXPECT_THAT(last.why, HasSubstr("3 times in a row without a new checkpoint"));
  EXPECT_THAT(last.why, HasSubstr("killed by signal 9 (Killed): rank 1: no space"));
}

TEST(RestartPolicy, LocalCheckpointsAreProgressOnceOnly) {
  RestartPolicy policy({.restarts = 1}, 5);
  const auto reached = [](std::int64_t locally) {
    return Ending{.code = 1, .state = "failed", .saved = 5, .saved_locally = locally};
  };
  EXPECT_EQ(policy.after(reached(6)).action, Action::restart);
  EXPECT_EQ(policy.after(reached(8)).action, Action::restart);
  // A node was lost with its checkpoints: step 7 had been reached before.
  EXPECT_EQ(policy.after(reached(9)).action, Action::restart);
  EXPECT_EQ(policy.after(reached(7)).action, Action::give_up);
}

TEST(RestartPolicy, WithoutRestartsTheFirstFailureIsTheLast) {
  EXPECT_THAT(RestartPolicy({.restarts = 0}, 0).after(failure(0)).why, HasSubstr("failed once"));
}

// If the reason already includes the code or the signal, it is not repeated.
TEST(RestartPolicy, FailuresAreNotSaidTwice) {
  Ending killed = failure(0, 137);
  killed.reason = "a process was killed, or ended without a message: exit code 137";
  EXPECT_EQ(failure_text(killed), killed.reason);
  Ending signalled = failure(0, -9);
  EXPECT_EQ(failure_text(signalled), "killed by signal 9 (Killed)");
  signalled.reason = "killed by signal 9 (Killed) before it could save";
  EXPECT_EQ(failure_text(signalled), signalled.reason);
  Ending wrong = failure(0, 1);
  wrong.reason = "the loss is not finite";
  EXPECT_EQ(failure_text(wrong), "exit code 1: the loss is not finite");
}

}  // namespace
}  // namespace trireme
