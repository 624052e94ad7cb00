// Tests of sequence length warm-up: exact accounting, and resuming in the middle.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

class CurriculumRun : public Workspace {
 protected:
  const std::vector<std::string> growing = {"curriculum.schedule=fixed_root",
                                            "curriculum.min_length=4", "curriculum.length_step=4",
                                            "curriculum.iters=20"};

  Outcome train_growing(const std::string& dir, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), growing.begin(), growing.end());
    return run(train_arguments(dir, more));
  }
};

TEST_F(CurriculumRun, CountsTokensAndResumesWithTheSameBits) {
  prepare_data();
  const Outcome whole = train_growing("whole");
  ASSERT_EQ(whole.code, 0) << whole.out;
  EXPECT_THAT(whole.out, HasSubstr("sequence length: 4 tokens at first, 16 from iteration 20"));
  std::istringstream lines(metrics("whole"));
  std::int64_t tokens = 0, before = 0;
  std::set<std::int64_t> lengths;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (!json.contains("seq_length")) continue;
    const std::int64_t length = json["seq_length"];
    tokens += 8 * length;
    EXPECT_EQ(json["consumed_tokens"], tokens);
    EXPECT_GE(length, before);
    lengths.insert(before = length);
  }
  EXPECT_EQ(lengths, (std::set<std::int64_t>{4, 8, 12, 16}));

  // The run is interrupted twice during warm-up, the second time after a full-length evaluation.
  ASSERT_EQ(train_growing("cut", {"train.exit_interval=5"}).code, 0);
  ASSERT_EQ(train_growing("cut", {"train.exit_interval=11"}).code, 0);
  const Outcome rest = train_growing("cut");
  ASSERT_EQ(rest.code, 0) << rest.out;
  EXPECT_THAT(rest.out, HasSubstr("at step 11"));
  EXPECT_EQ(metrics("cut"), metrics("whole"));
}

// A shorter run starts like a longer one: data and learning rate do not depend on its end.
TEST_F(CurriculumRun, EndsAfterTokensWithoutAnotherOrderOfTheData) {
  prepare_data();
  const std::vector<std::string> schedule = {
      "optimizer.warmup_tokens=200", "optimizer.decay_tokens=2000", "optimizer.decay_style=cosine",
      "optimizer.warmup_iters=0"};
  ASSERT_EQ(train_growing("whole", schedule).code, 0);
  std::vector<std::string> shorter = schedule;
  shorter.push_back("train.tokens=600");
  const Outcome outcome = train_growing("short", shorter);
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(nlohmann::json::parse(contents(folder_ / "short/status.json"))["state"], "done");

  std::istringstream lines(metrics("whole")), ended(metrics("short"));
  std::int64_t tokens = 0;
  std::string line, same;
  while (tokens < 600 && std::getline(lines, line)) {
    const auto json = nlohmann::json::parse(line);
    ASSERT_TRUE(std::getline(ended, same));
    EXPECT_EQ(line, same);
    if (!json.contains("consumed_tokens")) continue;
    const double lr = json["lr"], before = static_cast<double>(tokens);
    tokens = json["consumed_tokens"];
    if (before <= 200) {
      EXPECT_DOUBLE_EQ(lr, 1e-2 * before / 200);
    }
  }
  EXPECT_GE(tokens, 600);
}

TEST_F(CurriculumRun, GivesTheSameBitsOnTwoRanks) {
  prepare_data();
  ASSERT_EQ(train_growing("one", {"parallel.numerics=exact"}).code, 0);
  for (const std::string zero : {"0", "3"}) {
    std::vector<std::string> arguments = train_arguments("two" + zero, growing);
    arguments.insert(arguments.begin() + 1, {"--nproc", "2"});
    arguments.insert(arguments.end(), {"parallel.numerics=exact", "parallel.zero=" + zero});
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_EQ(metrics("two" + zero), metrics("one"));
  }
}

TEST_F(CurriculumRun, RefusesWhatDoesNotGo) {
  prepare_data();
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"curriculum.min_length=6"}, "multiple of curriculum.length_step"},
      {{"curriculum.min_length=20"}, "at most"},
      {{"curriculum.iters=0"}, "[curriculum] is missing iters"},
      {{"model.family=bert"}, "second segment"},
      {{"curriculum.schedule=cubic"}, "fixed_root"},
  };
  for (const auto& [more, message] : cases) {
    const Outcome outcome = train_growing("run", more);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(message));
  }
}

}  // namespace
}  // namespace trireme::testing_cli
