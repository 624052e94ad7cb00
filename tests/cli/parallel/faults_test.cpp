// Tests of ranks that die, stop, or fail: the job ends in time, says why, and resumes bit for bit.
#include <random>
#include <regex>

#include "faults.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

class SlowFaults : public Faults {};

const Layout pipeline{4, "parallel.pp=2 parallel.schedule=zbv parallel.zero=2"};
const Layout everything{4, "parallel.tp=2 parallel.zero=3"};

TEST_F(Faults, AKilledRankEndsTheJobWhichGoesOn) {
  ASSERT_EQ(train_on("whole", {1, exact_}).code, 0);
  Program program = start("run", pipeline, exact_);
  ASSERT_TRUE(advance(program, "run", 9, 0.001));
  send(program, "run", 3, SIGKILL);
  expect_end(program, "run", end_s);
  // The launcher's message: Open MPI's, or MPICH's, which names no rank.
  EXPECT_THAT(read("run.out"), testing::AnyOf(HasSubstr("rank 3"), HasSubstr("Killed (signal 9)")));
  EXPECT_THAT(read("run/status.json"), HasSubstr("\"state\": \"failed\""));
  expect_resumes("run", pipeline, exact_);
}

// Any remaining rank may be the one that notices.
TEST_F(Faults, AWatchdogThatEndsTheJobLeavesItsReasonInTheStatus) {
  for (const int stopped : {0, 1}) {
    SCOPED_TRACE(stopped);
    Program program = start("run", {2, "parallel.zero=1"}, exact_ + " train.iters=100000");
    ASSERT_TRUE(advance(program, "run", 3, 0));
    EXPECT_THAT(read("run/status.json"), HasSubstr("\"state\": \"running\""));
    send(program, "run", stopped, SIGSTOP);
    expect_end(program, "run", timeout_s + end_s);
    const std::string status = read("run/status.json");
    EXPECT_THAT(status, HasSubstr("\"state\": \"failed\""));
    EXPECT_THAT(status, HasSubstr("is not complete after"));
    EXPECT_THAT(status, HasSubstr("rank " + std::to_string(1 - stopped) + ": "));
  }
}

// The times are spread over passes, reductions and all other parts of a step.
TEST_F(SlowFaults, KilledAnywhereItGoesOn) {
  std::mt19937 random(1);
  for (const auto& [layout, reference] :
       {std::pair{pipeline, Layout{1, ""}}, std::pair{everything, Layout{2, "parallel.tp=2"}}}) {
    ASSERT_EQ(train_on("whole", reference, exact_).code, 0);
    for (int rank = 0; rank < layout.ranks; rank += in_long_tests(1, 3)) {
      SCOPED_TRACE(layout.text() + ", rank " + std::to_string(rank));
      Program program = start("run", layout, exact_);
      ASSERT_TRUE(
          advance(program, "run", 1 + random() % 5, static_cast<double>(random() % 20) / 1000));
      send(program, "run", rank, SIGKILL);
      expect_end(program, "run", end_s);
    }
    expect_resumes("run", layout, exact_);
    fs::remove_all(folder_ / "run");
    fs::remove_all(folder_ / "whole");
  }
}

TEST_F(SlowFaults, AStoppedRankIsNamed) {
  std::mt19937 random(2);
  ASSERT_EQ(train_on("whole", {1, exact_}).code, 0);
  for (int rank = 0; rank < pipeline.ranks; rank += in_long_tests(1, 2)) {
    SCOPED_TRACE(rank);
    Program program = start("run", pipeline, exact_);
    ASSERT_TRUE(
        advance(program, "run", 1 + random() % 5, static_cast<double>(random() % 20) / 1000));
    send(program, "run", rank, SIGSTOP);
    expect_end(program, "run", timeout_s + end_s);
    const std::string output = read("run.out");
    EXPECT_EQ(count_of(output, "trireme: rank"), 1) << output;
    EXPECT_THAT(output, HasSubstr("is not complete after"));
    EXPECT_TRUE(std::regex_search(
        output,
        std::regex("rank " + std::to_string(rank) +
                   " on \\S+ \\(does not respond|no response from rank " + std::to_string(rank))))
        << output;
  }
  expect_resumes("run", pipeline, exact_);
}

TEST_F(SlowFaults, KilledOrStoppedWhileItSavesItKeepsTheCheckpointBefore) {
  ASSERT_EQ(train_on("whole", {1, exact_}).code, 0);
  for (const std::string async : {"false", "true"}) {
    const std::string more = exact_ + " checkpoint.async=" + async;
    for (const int signal : {SIGKILL, SIGSTOP}) {
      for (const int rank : {0, 2}) {
        // The short test kills the first rank, and stops one that only the others can report.
        if (!long_tests() && (rank == 2) != (signal == SIGSTOP)) continue;
        SCOPED_TRACE("async " + async + ", signal " + std::to_string(signal) + " to rank " +
                     std::to_string(rank));
        Program program = start("run", pipeline, more);
        ASSERT_TRUE(advance(program, "run", 3, 0));
        ASSERT_TRUE(await_save(program, "run"));
        send(program, "run", rank, signal);
        expect_end(program, "run", (signal == SIGSTOP ? timeout_s : 0) + end_s);
      }
    }
    expect_resumes("run", pipeline, more);
    fs::remove_all(folder_ / "run");
  }
}

// Kills start after the first step: Open MPI 4.1 itself may hang if a rank dies in MPI_Init.
TEST_F(SlowFaults, SurvivesManyKills) {
  std::mt19937 random(3);
  const std::string more = exact_ + " train.iters=200 checkpoint.interval=3 checkpoint.async=true";
  ASSERT_EQ(train_on("whole", {1, more}).code, 0);
  for (int kill = 0; kill < in_long_tests(20, 6); ++kill) {
    SCOPED_TRACE(kill);
    Program program = start("run", pipeline, more);
    ASSERT_TRUE(
        advance(program, "run", 1 + random() % 8, static_cast<double>(random() % 60) / 1000));
    send(program, "run", static_cast<int>(random() % 4), SIGKILL);
    expect_end(program, "run", end_s);
  }
  expect_resumes("run", pipeline, more);
}

TEST_F(Faults, ASignalToTheLauncherSavesAndStops) {
  Program program = start("run", pipeline, exact_ + " train.iters=100000");
  ASSERT_TRUE(advance(program, "run", 5, 0));
  program.kill(SIGTERM);
  const Outcome outcome = wait_for(program, 60);
  EXPECT_EQ(outcome.code, 3) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("the same command resumes"));
  const auto steps = static_cast<long>(values_of(metrics("run"), "loss").size());
  EXPECT_EQ(CheckpointReader(path("run")).state().step, steps);
}

TEST_F(Faults, NumbersThatAreNotFiniteEndTheJobWithTheirPlace) {
  for (const Layout& layout : {pipeline, everything}) {
    const Outcome outcome = train_on("run" + std::to_string(jobs_++), layout,
                                     "optimizer.lr=1e30 optimizer.clip_grad=0");
    EXPECT_EQ(outcome.code, 1) << outcome.out;
    EXPECT_EQ(count_of(outcome.out, "trireme: rank"), 1) << outcome.out;
    EXPECT_THAT(read("run" + std::to_string(jobs_ - 1) + "/status.json"),
                testing::AllOf(HasSubstr("\"state\": \"failed\""), HasSubstr("not finite")));
    EXPECT_TRUE(std::regex_search(
        outcome.out, std::regex("first in [a-z_]+ of layer [0-9]+ \\((forward|backward)\\).* on "
                                "rank [0-9]+")))
        << outcome.out;
  }
}

// Runs mpirun with different arguments for its two processes.
class Differing : public Jobs {
 protected:
  Outcome two(const std::string& first, const std::string& second) const {
    const std::string program =
        " -n 1 " TRIREME_BINARY " train " + path("run.toml") + " run.dir=" + path("run") + " ";
    const std::string command = "timeout -s KILL 60 " + mpirun() + program + first + " :" +
                                program + second + " > " + path("out") + " 2>&1";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("out")};
  }
};

TEST_F(Differing, RanksOfDifferentConfigurationsAreRefused) {
  const std::pair<std::string, std::string> cases[] = {
      {"run.seed=1", "run.seed=2"},
      {"parallel.tp=2", "parallel.pp=2"},
      {"parallel.zero=1", "parallel.zero=3"},
  };
  for (const auto& [first, second] : cases) {
    const Outcome outcome = two(first, second);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_EQ(count_of(outcome.out, "trireme: rank"), 1) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("configuration of rank"));
    EXPECT_FALSE(fs::exists(folder_ / "run/metrics.jsonl"));
  }
}

}  // namespace
}  // namespace trireme::testing_cli
