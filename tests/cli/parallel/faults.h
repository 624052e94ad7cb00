// Helpers for jobs whose ranks die or stop: how faults are injected, how the job must end, and that
// it can be resumed.
#pragma once

#include "ranks.h"

namespace trireme::testing_cli {

inline constexpr double timeout_s = 4;  // train.timeout_s of jobs whose ranks stop
inline constexpr double end_s = 8;      // includes the message, the launcher and a busy machine

class Faults : public Jobs {
 protected:
  const std::string exact_ =
      "parallel.numerics=exact train.iters=60 checkpoint.interval=2 checkpoint.keep=2 "
      "train.timeout_s=" +
      std::to_string(timeout_s);

  // Waits for this many lines of metrics and a short time; false if the job ended earlier.
  bool advance(Program& program, const std::string& dir, std::size_t lines, double seconds) const {
    const std::size_t target = values_of(metrics(dir), "loss").size() + lines;
    program.runs_until([&] { return values_of(metrics(dir), "loss").size() >= target; });
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return program.running();
  }
  // Waits until a save is in progress; false if the job ended before.
  bool await_save(Program& program, const std::string& dir) const {
    const auto writing = [&] {
      std::error_code ignored;
      for (const auto& entry : fs::directory_iterator(folder_ / dir / "checkpoints", ignored)) {
        if (entry.path().extension() == ".tmp") return true;
      }
      return false;
    };
    return program.runs_until(writing);
  }
  // Signals a rank as soon as it exists.
  void send(Program& program, const std::string& dir, int rank, int signal) const {
    const bool sent = program.runs_until([&] {
      const auto ranks = ranks_of(path(dir));
      const auto found = ranks.find(rank);
      return found != ranks.end() && ::kill(found->second, signal) == 0;
    });
    EXPECT_TRUE(sent) << "the job ended by itself";
  }
  // Returns the newest step that the run reported as saved; 0 if none.
  static long last_saved(const std::string& output) {
    const std::size_t at = output.rfind("/checkpoints/step-");
    return at == std::string::npos ? 0 : std::strtol(output.c_str() + at + 18, nullptr, 10);
  }
  // Checks that the announced saves exist intact, and that nothing newer is corrupt.
  void expect_nothing_lost(const std::string& dir, const std::string& output) const {
    const long announced = last_saved(output);
    if (announced == 0) return;
    CheckpointReader reader(path(dir));
    EXPECT_GE(reader.state().step, announced);
    reader.verify();
  }
  // Checks that the job has ended in time, with at most one message, and all ranks are gone.
  void expect_end(Program& program, const std::string& dir, double seconds) const {
    const auto begin = Clock::now();
    const Outcome outcome = wait_for(program, seconds + 20);
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), seconds) << outcome.out;
    EXPECT_NE(outcome.code, 0) << outcome.out;
    EXPECT_LE(count_of(outcome.out, "trireme: rank"), 1) << outcome.out;
    while (!ranks_of(path(dir)).empty() && Clock::now() < begin + std::chrono::seconds(30))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // still being killed
    EXPECT_TRUE(ranks_of(path(dir)).empty());
    expect_nothing_lost(dir, outcome.out);
  }
  void expect_resumes(const std::string& dir, const Layout& layout, const std::string& more) const {
    const Outcome last = train_on(dir, layout, more);
    EXPECT_EQ(last.code, 0) << last.out;
    EXPECT_EQ(metrics(dir), metrics("whole"));
    EXPECT_EQ(first_difference(path(dir), path("whole")), "");
  }
};

}  // namespace trireme::testing_cli
