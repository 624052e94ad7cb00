// Tests that calls which never return end their process, with a message and an exit code.
#include "comm/alarm_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace trireme {
namespace {

void wait_for_ever() {
  for (;;) ::pause();
}

TEST(AlarmLimitDeathTest, EndsWhatTakesTooLong) {
  EXPECT_EXIT(
      {
        const AlarmLimit limit(1, "MPI_Finalize did not return\n", 3);
        wait_for_ever();
      },
      testing::ExitedWithCode(3), "MPI_Finalize did not return");
}

TEST(AlarmLimitDeathTest, EndsOnSigtermAtOnceWhereAsked) {
  EXPECT_EXIT(
      {
        std::signal(SIGTERM, SIG_IGN);  // as if the signal were recorded, but never checked
        AlarmLimit limit(1000, "late\n", 0);
        limit.end_at_once_on_sigterm();
        ::raise(SIGTERM);
        wait_for_ever();
      },
      testing::ExitedWithCode(0), "");
}

TEST(AlarmLimitDeathTest, ChangesNothingOnceItIsOver) {
  EXPECT_EXIT(
      {
        {
          AlarmLimit limit(1, "late\n", 3);
          limit.end_at_once_on_sigterm();
        }
        ::raise(SIGTERM);
        wait_for_ever();
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace trireme
