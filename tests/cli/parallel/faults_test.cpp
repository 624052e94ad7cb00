// Ranks that die, stop, or fail: the job ends in time and says why, and goes on bit for bit.
#include <random>
#include <regex>

#include "ranks.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

constexpr double timeout_s = 2;  // train.timeout_s of jobs whose ranks stop
constexpr double end_s = 8;      // for the message, the launcher and a busy machine

class Faults : public Jobs {
 protected:
  const std::string exact_ =
      "parallel.numerics=exact train.iters=60 checkpoint.interval=2 checkpoint.keep=2 "
      "train.timeout_s=" +
      std::to_string(timeout_s);

  // Lets the job go on by so many lines of metrics and a moment; false if it ended before.
  bool advance(Program& program, const std::string& dir, std::size_t lines, double seconds) const {
    const std::size_t target = values_of(metrics(dir), "loss").size() + lines;
    while (program.running() && values_of(metrics(dir), "loss").size() < target)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return program.running();
  }
  // Waits until a save is under way; false if the job ended before.
  bool await_save(Program& program, const std::string& dir) const {
    const auto writing = [&] {
      std::error_code ignored;
      for (const auto& entry : fs::directory_iterator(folder_ / dir / "checkpoints", ignored)) {
        if (entry.path().extension() == ".tmp") return true;
      }
      return false;
    };
    while (program.running() && !writing()) std::this_thread::yield();
    return program.running();
  }
  // Signals a rank as soon as it is there.
  void send(Program& program, const std::string& dir, int rank, int signal) const {
    while (program.running()) {
      const auto ranks = ranks_of(path(dir));
      const auto found = ranks.find(rank);
      if (found == ranks.end()) continue;
      ::kill(found->second, signal);
      return;
    }
    ADD_FAILURE() << "the job ended by itself";
  }
  // The newest step that the run said was saved; 0 if none.
  static long last_saved(const std::string& output) {
    const std::size_t at = output.rfind("/checkpoints/step-");
    return at == std::string::npos ? 0 : std::strtol(output.c_str() + at + 18, nullptr, 10);
  }
  // What was announced as saved is there, sound, and nothing newer is broken.
  void expect_nothing_lost(const std::string& dir, const std::string& output) const {
    const long announced = last_saved(output);
    if (announced == 0) return;
    CheckpointReader reader(path(dir));
    EXPECT_GE(reader.state().step, announced);
    reader.verify();
  }
  // After a fault the job has ended with one message of its own at most, in time, all ranks gone.
  void expect_end(Program& program, const std::string& dir, double seconds) const {
    const auto begin = Clock::now();
    const Outcome outcome = wait_for(program, seconds + 20);
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), seconds) << outcome.out;
    EXPECT_NE(outcome.code, 0) << outcome.out;
    EXPECT_LE(count_of(outcome.out, "trireme: rank"), 1) << outcome.out;
    while (!ranks_of(path(dir)).empty() && Clock::now() < begin + std::chrono::seconds(30))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // being killed
    EXPECT_TRUE(ranks_of(path(dir)).empty());
    expect_nothing_lost(dir, outcome.out);
  }
  void expect_goes_on(const std::string& dir, const Layout& layout, const std::string& more) const {
    const Outcome last = train_on(dir, layout, more);
    EXPECT_EQ(last.code, 0) << last.out;
    EXPECT_EQ(metrics(dir), metrics("whole"));
    EXPECT_EQ(first_difference(path(dir), path("whole")), "");
  }
};
class SlowFaults : public Faults {};

const Layout pipeline{4, "parallel.pp=2 parallel.schedule=zbv parallel.zero=2"};
const Layout everything{4, "parallel.tp=2 parallel.zero=3"};

TEST_F(Faults, AKilledRankEndsTheJobWhichGoesOn) {
  ASSERT_EQ(train_on("whole", {1, exact_}).code, 0);
  Program program = start("run", pipeline, exact_);
  ASSERT_TRUE(advance(program, "run", 9, 0.001));
  send(program, "run", 3, SIGKILL);
  expect_end(program, "run", end_s);
  EXPECT_THAT(read("run.out"), HasSubstr("rank 3"));  // the launcher's words
  expect_goes_on("run", pipeline, exact_);
}

// Moments spread over passes, reductions and whatever else a step does.
TEST_F(SlowFaults, KilledAnywhereItGoesOn) {
  std::mt19937 random(1);
  for (const auto& [layout, reference] :
       {std::pair{pipeline, Layout{1, ""}}, std::pair{everything, Layout{2, "parallel.tp=2"}}}) {
    ASSERT_EQ(train_on("whole", reference, exact_).code, 0);
    for (int rank = 0; rank < layout.ranks; ++rank) {
      SCOPED_TRACE(layout.text() + ", rank " + std::to_string(rank));
      Program program = start("run", layout, exact_);
      ASSERT_TRUE(
          advance(program, "run", 1 + random() % 5, static_cast<double>(random() % 20) / 1000));
      send(program, "run", rank, SIGKILL);
      expect_end(program, "run", end_s);
    }
    expect_goes_on("run", layout, exact_);
    fs::remove_all(folder_ / "run");
    fs::remove_all(folder_ / "whole");
  }
}

TEST_F(SlowFaults, AStoppedRankIsNamed) {
  std::mt19937 random(2);
  ASSERT_EQ(train_on("whole", {1, exact_}).code, 0);
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
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
        output, std::regex("rank " + std::to_string(rank) +
                           " \\(does not answer|no answer from rank " + std::to_string(rank))))
        << output;
  }
  expect_goes_on("run", pipeline, exact_);
}

TEST_F(SlowFaults, KilledOrStoppedWhileItSavesItKeepsTheCheckpointBefore) {
  ASSERT_EQ(train_on("whole", {1, exact_}).code, 0);
  for (const std::string async : {"false", "true"}) {
    const std::string more = exact_ + " checkpoint.async=" + async;
    for (const int signal : {SIGKILL, SIGSTOP}) {
      for (const int rank : {0, 2}) {
        SCOPED_TRACE("async " + async + ", signal " + std::to_string(signal) + " to rank " +
                     std::to_string(rank));
        Program program = start("run", pipeline, more);
        ASSERT_TRUE(advance(program, "run", 3, 0));
        ASSERT_TRUE(await_save(program, "run"));
        send(program, "run", rank, signal);
        expect_end(program, "run", (signal == SIGSTOP ? timeout_s : 0) + end_s);
      }
    }
    expect_goes_on("run", pipeline, more);
    fs::remove_all(folder_ / "run");
  }
}

// From the first step on: Open MPI 4.1 itself may hang where a rank dies within MPI_Init.
TEST_F(SlowFaults, SurvivesTwentyKills) {
  std::mt19937 random(3);
  const std::string more = exact_ + " train.iters=200 checkpoint.interval=3 checkpoint.async=true";
  ASSERT_EQ(train_on("whole", {1, more}).code, 0);
  for (int kill = 0; kill < 20; ++kill) {
    SCOPED_TRACE(kill);
    Program program = start("run", pipeline, more);
    ASSERT_TRUE(
        advance(program, "run", 1 + random() % 8, static_cast<double>(random() % 60) / 1000));
    send(program, "run", static_cast<int>(random() % 4), SIGKILL);
    expect_end(program, "run", end_s);
  }
  expect_goes_on("run", pipeline, more);
}

TEST_F(Faults, NumbersThatAreNotFiniteEndTheJobWithTheirPlace) {
  for (const Layout& layout : {pipeline, everything}) {
    const Outcome outcome = train_on("run" + std::to_string(jobs_++), layout,
                                     "optimizer.lr=1e30 optimizer.clip_grad=0");
    EXPECT_EQ(outcome.code, 1) << outcome.out;
    EXPECT_EQ(count_of(outcome.out, "trireme: rank"), 1) << outcome.out;
    EXPECT_TRUE(std::regex_search(
        outcome.out, std::regex("first in [a-z_]+ of layer [0-9]+ \\((forward|backward)\\).* on "
                                "rank [0-9]+")))
        << outcome.out;
  }
}

// mpirun with different arguments for its two processes.
class Differing : public Jobs {
 protected:
  Outcome two(const std::string& first, const std::string& second) const {
    const std::string program =
        " -n 1 " TRIREME_BINARY " train " + path("run.toml") + " run.dir=" + path("run") + " ";
    const std::string command = "timeout -s KILL 60 mpirun --oversubscribe --allow-run-as-root" +
                                program + first + " :" + program + second + " > " + path("out") +
                                " 2>&1";
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
