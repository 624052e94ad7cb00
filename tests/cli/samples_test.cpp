// Tests of runs measured in samples: changing batch sizes, batch size schedules, and test data that
// is evaluated without training on it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class Samples : public Workspace {
 protected:
  std::vector<std::string> of_samples(std::vector<std::string> more) const {
    more.insert(more.begin(),
                {"train.iters=0", "train.samples=320", "optimizer.warmup_iters=0",
                 "optimizer.min_lr=1e-3", "optimizer.decay_style=cosine", "train.eval_iters=0",
                 "checkpoint.interval=0", "model.hidden_dropout=0", "model.num_layers=1"});
    return more;
  }
  Outcome train_samples(const std::string& dir, const std::vector<std::string>& more) const {
    return train(dir, of_samples(more));
  }
};

TEST_F(Samples, AnotherBatchTrainsWhatIsLeft) {
  prepare_data();
  struct Case {
    const char *name, *before, *after;
    double steps;
  };
  for (const Case& c :
       {Case{"larger", "", "train.global_batch_size=16", 30},
        {"smaller", "", "train.global_batch_size=4", 60},
        {"ramp_gone", "train.rampup_batch_size=[4,4,40]", "train.rampup_batch_size=[]", 45},
        {"ramp_comes", "", "train.rampup_batch_size=[4,4,40]", 40},
        {"schedule_comes", "", "train.batch_size_schedule=0:8 200s:4", 55}}) {
    std::vector<std::string> first = {"train.exit_interval=20"}, second = {c.after};
    if (*c.before) first.push_back(c.before);
    if (std::string(c.name) == "schedule_comes") second.push_back("train.global_batch_size=0");
    ASSERT_EQ(train_samples(c.name, first).code, 0);
    const Outcome outcome = train_samples(c.name, second);
    ASSERT_EQ(outcome.code, 0) << outcome.out;
    const std::string lines = metrics(c.name);
    EXPECT_EQ(values_of(lines, "consumed_samples").back(), 320) << outcome.out;
    EXPECT_EQ(values_of(lines, "step").back(), c.steps) << outcome.out;
    EXPECT_LT(values_of(lines, "lr").back(), 1.1e-3);
    const bool same = std::string(c.name) == "schedule_comes";  // identical up to this point
    EXPECT_EQ(outcome.out.find("with different batch sizes") == std::string::npos, same)
        << outcome.out;
    EXPECT_THAT(train_samples(c.name, second).out, HasSubstr("nothing to do"));
  }
}

TEST_F(Samples, ARestThatIsNoWholeBatchIsSaid) {
  prepare_data();
  ASSERT_EQ(train_samples("run", {"train.exit_interval=1"}).code, 0);
  const Outcome outcome = train_samples("run", {"train.global_batch_size=24"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(values_of(metrics("run"), "consumed_samples").back(), 320);
  const Outcome other = train_samples("other", {"train.exit_interval=1"});
  EXPECT_THAT(
      train_samples("other", {"train.global_batch_size=100", "train.micro_batch_size=4"}).out,
      HasSubstr("308 of train.samples = 320"));
}

// Iterations count steps, but samples are still read at their position in the data order.
TEST_F(Samples, IterationsOfASmallerBatchFindTheirData) {
  prepare_data();
  const std::vector<std::string> length = {"train.iters=40", "train.samples=0"};
  auto first = length, second = length;
  first.push_back("train.exit_interval=20");
  second.push_back("train.global_batch_size=2");
  ASSERT_EQ(train_samples("run", first).code, 0);
  const Outcome outcome = train_samples("run", second);
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(values_of(metrics("run"), "consumed_samples").back(), 200);
  EXPECT_THAT(outcome.out, HasSubstr("train.iters = 40 counts steps"));
}

TEST_F(Samples, ScheduleSaysTheBatch) {
  prepare_data();
  // 64 tokens are 4 samples of 16.
  const Outcome outcome =
      train_samples("run", {"train.global_batch_size=0",
                            "train.batch_size_schedule=0:2, 64:4 0.32K:8", "train.samples=50"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(values_of(metrics("run"), "consumed_samples"),
              testing::ElementsAre(2, 4, 8, 12, 16, 20, 28, 36, 44, 52));
  for (const auto& [setting, message] :
       {std::pair{"train.batch_size_schedule=0:2 1:4", "starting at sample 0"},
        {"train.batch_size_schedule=0:2 64", "has no colon"},
        {"train.batch_size_schedule=0:2 6q:4", "'6q:4'"},
        {"train.batch_size_schedule=0:3", "is not divisible"}}) {
    const Outcome wrong = train_samples("wrong", {"train.global_batch_size=0", setting});
    EXPECT_EQ(wrong.code, 2) << setting;
    EXPECT_THAT(wrong.out, HasSubstr(message));
  }
  const Outcome both = train_samples("wrong", {"train.batch_size_schedule=0:2"});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.out, HasSubstr("train.global_batch_size are mutually exclusive"));
}

TEST_F(Samples, TheTestSplitIsEvaluatedAtTheEnd) {
  prepare_data();
  const std::vector<std::string> split = {"data.split=80,10,10", "train.iters=20"};
  ASSERT_EQ(train("run", split).code, 0);
  const std::vector<double> tested = values_of(metrics("run"), "test_loss");
  ASSERT_EQ(tested.size(), 1u);
  EXPECT_THAT(contents(path("run/log.txt")), HasSubstr("step 20: test loss "));
  // The checkpoint gives the same loss, on any command line.
  const Outcome again = run({"eval", path("run"), "--split", "test", "--json"});
  ASSERT_EQ(again.code, 0) << again.out;
  EXPECT_THAT(again.out, HasSubstr(fmt::format("\"loss\":{}", tested.front()).substr(0, 12)));
  const Outcome both = run({"eval", path("run")});
  EXPECT_THAT(both.out, testing::AllOf(HasSubstr("valid loss"), HasSubstr("test  loss")));
  // An interrupted run reports it as well.
  ASSERT_EQ(
      train("stopped", {"data.split=80,10,10", "train.iters=20", "train.exit_interval=8"}).code, 0);
  EXPECT_TRUE(values_of(metrics("stopped"), "test_loss").empty());
  ASSERT_EQ(train("stopped", split).code, 0);
  EXPECT_EQ(metrics("stopped"), metrics("run"));
}

TEST_F(Samples, FilesThatAreNamedAreThere) {
  prepare_data();
  const std::string data = "data.train_path=[\"" + path("corpus_text_document") + "\"]";
  for (const char* key : {"data.test_path", "data.valid_path"}) {
    const Outcome outcome = train("run", {"data.path=[]", data, std::string(key) + "=[\"nothere\"]",
                                          "train.eval_interval=0"});
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("nothere"));
  }
  const Outcome outcome = train(
      "run", {"data.path=[]", data, "data.test_path=[\"" + path("corpus_text_document") + "\"]",
              "train.iters=2", "optimizer.warmup_iters=0"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("step 2: test loss"));
}

// An empty test split does not affect training.
TEST_F(Samples, ATestShareWithoutADocumentIsSaid) {
  prepare_data();
  const Outcome outcome =
      train("run", {"data.split=95,5,0.01", "train.iters=2", "optimizer.warmup_iters=0"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("note: there is no test loss: the test split of"));
}

// Lines in the file are complete; a narrow console shortens its own.
TEST_F(Samples, EveryLineOfTheFileHasAllFigures) {
  prepare_data();
  ASSERT_EQ(train("run", {"train.iters=20", "run.peak_tflops=1"}, {{"TRIREME_COLUMNS", "60"}}).code,
            0);
  std::istringstream log(contents(path("run/log.txt")));
  int lines = 0;
  for (std::string line; std::getline(log, line);) {
    if (line.find(" | loss ") == std::string::npos) continue;
    ++lines;
    EXPECT_THAT(line, testing::AllOf(HasSubstr(" tok/s, "), HasSubstr("FLOP/s, MFU "),
                                     HasSubstr(" | mem "), HasSubstr(" | left ")));
  }
  EXPECT_EQ(lines, 2);
  std::istringstream shown(contents(path("output.txt")));
  for (std::string line; std::getline(shown, line);) {
    if (line.find(" | loss ") == std::string::npos) continue;
    EXPECT_LE(line.size(), 60u);
  }
  EXPECT_THAT(contents(path("run/log.txt")),
              testing::AllOf(HasSubstr("step 1/20 is running"), HasSubstr("step 1/20 took ")));
}

TEST_F(Samples, ValuesThatSwitchLearningOrValidationOffAreSaid) {
  prepare_data();
  const Outcome usual = train("usual", {"train.iters=8"});
  EXPECT_THAT(usual.out, testing::Not(HasSubstr("note: ")));
  const Outcome outcome = train(
      "run", {"train.iters=8", "model.init_std=0", "train.eval_interval=2", "train.eval_iters=0"});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, testing::AllOf(HasSubstr("model.init_std = 0 initializes all weights"),
                                          HasSubstr("train.eval_iters = 0 disables validation")));
}

TEST_F(Samples, CtrlCIsAnsweredAtOnce) {
  prepare_data();
  Program program(train_arguments("run", {"train.iters=1000000", "checkpoint.interval=0"}),
                  path("output.txt"));
  program.runs_until([&] { return metrics("run").size() >= 200; });
  program.kill(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 3) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("stopping after the current step"));
  EXPECT_THAT(contents(path("run/status.json")), HasSubstr("interrupted by Ctrl-C"));
}

// A kill came between the checkpoint's rename and the update of `latest`.
TEST_F(Samples, LatestIsMendedWhereNothingIsToDo) {
  prepare_data();
  ASSERT_EQ(train("run", {"train.iters=4"}).code, 0);
  const fs::path folder = path("run/checkpoints");
  write("run/checkpoints/latest", "step-00000002\n");
  write("run/checkpoints/latest.tmp", "step-0");
  const auto past = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(folder / "latest", past);
  const Outcome outcome = train("run", {"train.iters=4"});
  EXPECT_THAT(outcome.out, HasSubstr("nothing to do"));
  EXPECT_EQ(contents(folder / "latest"), "step-00000004\n");
  EXPECT_FALSE(fs::exists(folder / "latest.tmp"));
}

}  // namespace
}  // namespace trireme::testing_cli
