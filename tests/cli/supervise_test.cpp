// Tests that killed runs restart by themselves, and stop when asked to.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

class Supervise : public Workspace {
 protected:
  // Returns the process that trains in this folder, as it reports itself; 0: none yet.
  pid_t trainer(const std::string& dir) const {
    const std::vector<double> pids = values_of(contents(path(dir + "/status.json")), "pid");
    return pids.empty() ? 0 : static_cast<pid_t>(pids.front());
  }
  // Waits until a process other than `before` has finished some steps.
  pid_t next_trainer(Program& program, const std::string& dir, pid_t before) const {
    program.runs_until([&] {
      const pid_t now = trainer(dir);
      return now != 0 && now != before;
    });
    const std::size_t done = values_of(metrics(dir), "loss").size();
    program.runs_until([&] { return values_of(metrics(dir), "loss").size() > done + 3; });
    return trainer(dir);
  }
};

TEST_F(Supervise, ARunThatIsKilledGoesOnAndLosesNothing) {
  prepare_data();
  const std::string steps = "train.iters=60", saves = "checkpoint.interval=10";
  ASSERT_EQ(train("whole", {steps, saves}).code, 0);
  Program program(train_arguments("run", {steps, saves, "--restarts", "2", "--restart-wait=0"}),
                  path("output.txt"));
  pid_t killed = 0;
  for (int i = 0; i < 2; ++i) {
    killed = next_trainer(program, "run", killed);
    ASSERT_TRUE(program.running());
    ASSERT_EQ(::kill(killed, SIGKILL), 0);
  }
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(metrics("run"), metrics("whole"));
  const std::string events = contents(path("run/events.jsonl"));
  EXPECT_EQ(std::ranges::count(events, '\n'), 2) << events;
  EXPECT_THAT(contents(path("run/log.txt")), HasSubstr("killed by signal 9"));
  EXPECT_THAT(contents(path("run/status.json")), HasSubstr("\"done\""));
}

TEST_F(Supervise, SignalsSaveAndStopTheRun) {
  prepare_data();
  for (const int signal : {SIGTERM, SIGUSR1}) {
    Program program(
        train_arguments("run", {"train.iters=100000", "checkpoint.interval=0", "--restarts=2"}),
        path("output.txt"));
    next_trainer(program, "run", trainer("run"));
    program.kill(signal);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.code, 3) << outcome.out;
    EXPECT_THAT(contents(path("run/status.json")), HasSubstr("\"interrupted\""));
    EXPECT_FALSE(fs::exists(path("run/events.jsonl")));
  }
}

TEST_F(Supervise, ASignalEndsAWait) {
  Program program({"supervise", "--run", path("run"), "--restart-wait", "100", "--", "false"},
                  path("output.txt"));
  program.runs_until(
      [&] { return contents(path("output.txt")).find("in 100 s") != std::string::npos; });
  program.kill(SIGTERM);
  EXPECT_EQ(program.wait().code, -SIGTERM);
}

TEST_F(Supervise, WrongInputIsRefusedOnce) {
  const Outcome none = run({"supervise", "--run", path("run")});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.out, HasSubstr("expected the command of the run"));
  const Outcome unknown = run({"supervise", "--run", path("run"), "--rstarts", "3", "true"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.out, HasSubstr("unknown flag '--rstarts'"));
  const Outcome many = run({"train", path("absent.toml"), "--restarts", "-1"});
  EXPECT_EQ(many.code, 2);
  const Outcome launched = run({"supervise", "--run", path("run"), "true"},
                               {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_EQ(launched.code, 2);
  EXPECT_THAT(launched.out, HasSubstr("has already started 2 processes"));
}

}  // namespace
}  // namespace trireme::testing_cli
