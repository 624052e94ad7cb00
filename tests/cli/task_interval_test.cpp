// Tests of evaluation tasks during training.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class Tasks : public Workspace {
 protected:
  void prepare() {
    prepare_data();
    write("choice.jsonl",
          R"({"context": "the ship", "choices": ["turns the wind.", "oar oar oar."], "answer": 0})"
          "\n"
          R"({"context": "one oar", "choices": ["ship captain", "meets a rower."], "answer": 1})"
          "\n");
    write("words.jsonl", "{\"text\": \"the captain sees the ship.\"}\n");
  }
  // What `trireme eval --tasks` finds of a checkpoint.
  nlohmann::json evaluated(const std::string& checkpoint) const {
    const Outcome outcome = run({"eval", checkpoint, "--tasks", path("choice.jsonl"), "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    return nlohmann::json::parse(outcome.out.substr(outcome.out.find("{\"")))["tasks"][0];
  }
};

TEST_F(Tasks, NumbersDuringTrainingAreThoseOfTheCheckpoint) {
  prepare();
  const Outcome outcome =
      train("run",
            {"train.iters=5", "checkpoint.interval=0", "train.eval_interval=0",
             "train.eval_tasks=[\"" + path("choice.jsonl") + "\"]", "train.eval_tasks_interval=2"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("step 4: choice_acc "));
  const std::string lines = metrics("run");
  ASSERT_EQ(values_of(lines, "choice_acc_norm").size(), 3u);  // steps 2 and 4, and the last
  const nlohmann::json last = evaluated(path("run"));
  EXPECT_EQ(values_of(lines, "choice_acc").back(), last["acc"].get<double>());
  EXPECT_EQ(values_of(lines, "choice_acc_norm").back(), last["acc_norm"].get<double>());
}

// As after a kill between the last checkpoint and the end of its evaluation.
TEST_F(Tasks, AnEvaluationThatWasKilledIsCompleted) {
  prepare();
  const std::vector<std::string> settings = {"train.iters=4", "checkpoint.interval=0",
                                             "train.eval_tasks=[\"" + path("choice.jsonl") + "\"]",
                                             "train.eval_tasks_interval=2"};
  ASSERT_EQ(train("run", settings).code, 0);
  const std::string whole = metrics("run");
  ASSERT_EQ(values_of(whole, "choice_acc").size(), 2u);
  for (const std::string name : {"run/metrics.jsonl", "run/timings.jsonl"}) {
    const std::string text = contents(path(name));
    write(name, text.substr(0, text.rfind('\n', text.size() - 2) + 1));
  }
  ASSERT_EQ(values_of(metrics("run"), "choice_acc").size(), 1u);
  const Outcome again = train("run", settings);
  EXPECT_EQ(again.code, 0) << again.out;
  EXPECT_THAT(again.out, HasSubstr("step 4: choice_acc "));
  EXPECT_EQ(metrics("run"), whole);
  EXPECT_THAT(train("run", settings).out, Not(HasSubstr("choice_acc")));  // it is complete now
  EXPECT_EQ(metrics("run"), whole);
}

// The file is too long to be evaluated in the time of the test.
TEST_F(Tasks, ASignalEndsAnEvaluation) {
  prepare();
  const std::string rows = contents(path("choice.jsonl"));
  std::string many;
  for (int i = 0; i < 20000; ++i) many += rows;
  write("choice.jsonl", many);
  const std::string tasks = "train.eval_tasks=[\"" + path("choice.jsonl") + "\"]";
  Program program({"train", path("run.toml"), "run.dir=" + path("run"), "train.iters=4",
                   "checkpoint.interval=0", tasks, "train.eval_tasks_interval=2"},
                  path("output.txt"));
  ASSERT_TRUE(program.runs_until(
      [&] { return fs::exists(folder_ / "run/checkpoints/step-00000002/manifest.json"); }));
  program.kill(SIGTERM);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 3) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("stopped at step 2 of 4, and saved"));
  write("choice.jsonl", rows);
  const Outcome resumed = train(
      "run", {"train.iters=4", "checkpoint.interval=0", tasks, "train.eval_tasks_interval=2"});
  EXPECT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_EQ(values_of(metrics("run"), "choice_acc").size(), 2u);
}

TEST_F(Tasks, WrongOnesEndTheRunBeforeItBegins) {
  prepare();
  const auto refused = [&](const std::vector<std::string>& more) {
    const Outcome outcome = train("run", more);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    return outcome.out;
  };
  const std::string key = "train.eval_tasks=";
  EXPECT_THAT(refused({key + "[\"" + path("missing.jsonl") + "\"]"}), HasSubstr("missing.jsonl"));
  EXPECT_THAT(refused({key + "[\"" + path("corpus.txt") + "\"]"}), HasSubstr("corpus.txt"));
  const std::string twice = "\"" + path("choice.jsonl") + "\"";
  EXPECT_THAT(refused({key + "[" + twice + "," + twice + "]"}), HasSubstr("two files 'choice'"));
  EXPECT_THAT(refused({"train.eval_tasks_interval=2"}), HasSubstr("train.eval_tasks_interval"));
  EXPECT_FALSE(fs::exists(path("run")));
}

}  // namespace
}  // namespace trireme::testing_cli
