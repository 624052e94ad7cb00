// Tests of a run's reaction to loss spikes: it does not depend on interruptions or on the
// layout.
#include "jobs.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

// The learning rate is so high that the loss fluctuates: 1.2 standard deviations count as a spike.
class LossSpikesOfRuns : public Jobs {
 protected:
  const std::string often_ =
      "train.iters=40 train.eval_iters=0 parallel.numerics=exact train.spike_window=8 "
      "train.spike_sigma=1.2 optimizer.lr=3e-2 ";
  const std::string skip_ = often_ + "train.spike_policy=skip checkpoint.interval=7";
  const std::string back_ =
      often_ + "train.spike_policy=back train.spike_back_steps=5 checkpoint.interval=4";

  // Interrupts where no checkpoint is due, then where one may have been postponed.
  void expect_the_same_in_pieces(const std::string& dir, const std::string& settings) const {
    for (const char* stop : {"11", "16", "23"})
      ASSERT_EQ(train_on(dir, {1, ""}, settings + " train.exit_interval=" + stop).code, 0);
    ASSERT_EQ(train_on(dir, {1, ""}, settings).code, 0);
    EXPECT_EQ(metrics(dir), metrics("whole"));
    EXPECT_EQ(first_difference(path(dir), path("whole")), "");
  }
};

TEST_F(LossSpikesOfRuns, SkipUpdatesAlikeInPiecesAndOnRanks) {
  const Outcome outcome = train_on("whole", {1, ""}, skip_);
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(read("whole/log.txt"), HasSubstr("; its update is skipped"));
  EXPECT_THAT(read("whole/events.jsonl"), HasSubstr("\"event\": \"skipped\""));
  const std::vector<double> skipped = values_of(metrics("whole"), "skipped_steps");
  ASSERT_EQ(skipped.size(), 40u);
  EXPECT_GT(skipped.back(), 0);
  EXPECT_LT(skipped.back(), 20);
  expect_the_same_in_pieces("pieces", skip_);
  ASSERT_EQ(train_on("ranks", {2, "parallel.pp=2"}, skip_).code, 0);
  EXPECT_EQ(metrics("ranks"), metrics("whole"));
}

TEST_F(LossSpikesOfRuns, GoBackAlikeInPiecesAndOnRanks) {
  const Outcome outcome = train_on("whole", {1, ""}, back_);
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(read("whole/log.txt"), HasSubstr("; rolling back to the weights of step "));
  EXPECT_THAT(read("whole/events.jsonl"), HasSubstr("\"event\": \"went back\""));
  EXPECT_THAT(metrics("whole"), HasSubstr("\"went_back_to\": "));
  expect_the_same_in_pieces("pieces", back_);
  ASSERT_EQ(train_on("ranks", {2, "parallel.zero=1"}, back_).code, 0);
  EXPECT_EQ(metrics("ranks"), metrics("whole"));
}

// Includes interruptions right after a rollback, and postponed saves.
TEST_F(LossSpikesOfRuns, SaveTheSameStepsInPieces) {
  const auto saves = [&](const std::string& dir) {
    return saved_steps(folder_ / dir / "checkpoints");
  };
  ASSERT_EQ(train_on("whole", {1, ""}, back_).code, 0);
  std::vector<std::int64_t> stops;
  std::istringstream lines(metrics("whole"));
  for (std::string line; std::getline(lines, line);)
    if (!values_of(line, "went_back_to").empty())
      stops.push_back(static_cast<std::int64_t>(values_of(line, "step").at(0)));
  ASSERT_THAT(stops, testing::SizeIs(testing::Ge(2u))) << metrics("whole");
  for (const std::int64_t stop : {stops[0], stops[1], std::int64_t{8}, std::int64_t{12}}) {
    const std::string dir = "stopped" + std::to_string(stop);
    for (const std::string& settings :
         {back_ + " train.exit_interval=" + std::to_string(stop), back_})
      ASSERT_EQ(train_on(dir, {1, ""}, settings).code, 0);
    std::vector<std::int64_t> expected = saves("whole");
    expected.push_back(stop);
    EXPECT_THAT(saves(dir), testing::IsSubsetOf(expected)) << stop;
    EXPECT_THAT(saves("whole"), testing::IsSubsetOf(saves(dir))) << stop;
  }
}

TEST_F(LossSpikesOfRuns, AreLeftAloneWithoutAPolicy) {
  ASSERT_EQ(train_on("whole", {1, ""}, "train.iters=12 train.eval_iters=0").code, 0);
  ASSERT_EQ(train_on("calm", {1, ""},
                     "train.iters=12 train.eval_iters=0 train.spike_policy=skip "
                     "train.spike_sigma=1000")
                .code,
            0);
  EXPECT_EQ(values_of(metrics("calm"), "loss"), values_of(metrics("whole"), "loss"));
  EXPECT_EQ(metrics("whole").find("skipped_steps"), std::string::npos);
}

}  // namespace
}  // namespace trireme::testing_cli
