// Tests of evaluation tasks during training.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

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
