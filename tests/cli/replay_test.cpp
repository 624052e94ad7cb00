// Tests of `trireme replay`: a run is recomputed on its own layout and on others, and deviations
// are named.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

class Replay : public Workspace {
 protected:
  Replay() {
    prepare_data();
    const Outcome trained =
        train("run", {"parallel.numerics=exact", "train.iters=12", "train.hash_interval=3",
                      "checkpoint.interval=4", "checkpoint.keep=0", "train.eval_interval=6"});
    EXPECT_EQ(trained.code, 0) << trained.out;
  }

  Outcome replay(const std::string& steps, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"replay", path("run"), "--steps", steps});
    return run(more);
  }
  // Returns every file of the run with its modification time.
  std::map<std::string, fs::file_time_type> files_of_the_run() const {
    std::map<std::string, fs::file_time_type> files;
    for (const auto& entry : fs::recursive_directory_iterator(path("run")))
      files[entry.path().string()] = entry.last_write_time();
    return files;
  }
  // Replaces one occurrence of a text in the run's metrics.
  void change(const std::string& from, const std::string& to) const {
    std::string text = metrics("run");
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << text;
    write("run/metrics.jsonl", text.replace(at, from.size(), to));
  }
};

TEST_F(Replay, OfTheRunsOwnLayoutAndOfOthersHasItsBitsAndLeavesItAlone) {
  const auto before = files_of_the_run();
  const auto json_of = [&](const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    return nlohmann::json::parse(outcome.out.substr(outcome.out.find('{')));
  };
  const auto own = json_of(replay("6:10", {"--json"}));
  EXPECT_TRUE(own.at("equal").get<bool>());
  EXPECT_EQ(own.at("first_step"), 5);  // after the checkpoint of step 4
  EXPECT_EQ(own.at("steps"), 6);
  EXPECT_EQ(own.at("hashes"), 2);
  // One gradient per micro-batch; and a replay from the beginning.
  const auto other =
      json_of(replay("1:3", {"parallel.recompute=full", "data.prefetch=1", "--json"}));
  EXPECT_EQ(other.at("first_step"), 1);
  EXPECT_EQ(other.at("checkpoint"), "");
  EXPECT_EQ(other.at("hashes"), 1);
  EXPECT_EQ(files_of_the_run(), before);
}

TEST_F(Replay, NamesTheFirstStepThatDiffers) {
  const Outcome other = replay("9:12", {"optimizer.weight_decay=0.5"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.out, HasSubstr("step 9 is the first that differs"));
  EXPECT_THAT(other.out, HasSubstr("parameter_hash"));
  EXPECT_THAT(other.out, HasSubstr("Different from the run: optimizer.weight_decay: 0.5, was "));
  EXPECT_THAT(replay("9:12", {"parallel.exact_block=4"}).out,
              HasSubstr("Different from the run: parallel.exact_block: 4, was 0"));
  // A forged loss.
  change("{\"step\": 7, \"loss\": ", "{\"step\": 7, \"loss\": 1");
  const Outcome forged = replay("7");
  EXPECT_EQ(forged.code, 1);
  EXPECT_THAT(forged.out, HasSubstr("step 7 is the first that differs from the run: loss is "));
  EXPECT_THAT(forged.out, HasSubstr("1 of 3 steps differ"));
}

TEST_F(Replay, SaysWhatIsWrongWithItsArguments) {
  const auto refused = [&](const Outcome& outcome, const char* message) {
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(message));
  };
  refused(replay("0:3"), "1 <= A <= B <= 12");
  refused(replay("5:4"), "1 <= A <= B <= 12");
  refused(replay("10:13"), "1 <= A <= B <= 12");
  refused(replay("3:"), "expected two steps A:B");
  refused(replay("three"), "expected two steps A:B");
  refused(replay("3:5", {"run.dir=elsewhere"}), "a replay sets run.dir itself");
  refused(replay("3:5", {"train.itres=3"}), "train.iters");
  refused(run({"replay", path("run/checkpoints"), "--steps", "1:2"}),
          "expected the folder of a run");
}

}  // namespace
}  // namespace trireme::testing_cli
