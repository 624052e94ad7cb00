// Tests that a signal stops work at its next write, removes unfinished files, and ends the process.
#include "base/stop.h"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "base/error.h"
#include "base/file.h"

namespace trireme {
namespace {

fs::path place(const char* name) {
  return fs::path(testing::TempDir()) / (std::string("trireme_stop_") + name);
}

void write_until(const fs::path& path, int signal) {
  stoppable([&] {
    NewFile file(path);
    file.file().write("a", 1);
    std::raise(signal);
    file.file().write("b", 1);
    std::_Exit(7);  // not reached
  });
}

TEST(Stoppable, RemovesWhatIsUnfinishedAndDiesOfTheSignal) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const fs::path path = place("file");
    EXPECT_EXIT(write_until(path, signal), testing::KilledBySignal(signal), "");
    EXPECT_FALSE(fs::exists(path) || fs::exists(path.string() + ".tmp"));
  }
}

TEST(Stoppable, TheSecondSignalEndsItAtOnce) {
  EXPECT_EXIT(stoppable([] {
                std::raise(SIGINT);
                std::raise(SIGINT);
                std::_Exit(7);
              }),
              testing::KilledBySignal(SIGINT), "");
}

TEST(Stoppable, SignalsThatWereIgnoredStaySo) {
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);
        stoppable([] {
          std::raise(SIGHUP);
          check_stopped();
        });
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Stoppable, EveryThreadHearsOfIt) {
  EXPECT_EXIT(stoppable([] {
                std::raise(SIGTERM);
                std::thread([] {
                  EXPECT_THROW(check_stopped(), Error);
                  if (testing::Test::HasFailure()) std::_Exit(7);
                }).join();
              }),
              testing::KilledBySignal(SIGTERM), "");
}

TEST(Stoppable, PassesErrorsOn) {
  EXPECT_THROW(stoppable([] { fail("no"); }), Error);
  check_stopped();
}

}  // namespace
}  // namespace trireme
