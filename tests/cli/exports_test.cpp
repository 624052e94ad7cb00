// Tests of `checkpoint.export`: checkpoints as Hugging Face folders while a run trains.
#include <gmock/gmock.h>

#include <csignal>

#include "cli/program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

class Exports : public Workspace {
 protected:
  void SetUp() override { prepare_data(); }

  Outcome train(std::vector<std::string> more) const {
    more.insert(more.end(), {"train.iters=10", "checkpoint.interval=2", "checkpoint.export=hf"});
    return run(train_arguments("run", more));
  }
  std::vector<std::string> exported() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "run/exports"))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  // Returns the contents of all files of a folder, by name.
  static std::map<std::string, std::string> files_of(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder))
      files[entry.path().filename()] = contents(entry.path());
    return files;
  }
};

TEST_F(Exports, AreWhatConvertWritesOfTheSameCheckpoints) {
  for (const std::string async : {"false", "true"}) {
    const Outcome outcome =
        train({"checkpoint.export_interval=4", "checkpoint.async=" + async, "checkpoint.keep=0"});
    ASSERT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("exported " + path("run/exports/step-00000004")));
    EXPECT_THAT(exported(),
                testing::ElementsAre("step-00000004", "step-00000008", "step-00000010"));
    for (const std::string& step : exported()) {
      const Outcome converted = run({"convert", "--to", "hf", "--dtype", "bf16",
                                     path("run/checkpoints/" + step), path(async + step)});
      ASSERT_EQ(converted.code, 0) << converted.out;
      const auto files = files_of(folder_ / "run/exports" / step);
      EXPECT_THAT(files, testing::Contains(testing::Key("model.safetensors")));
      EXPECT_EQ(files, files_of(folder_ / (async + step)));
    }
    fs::remove_all(folder_ / "run");
  }
}

// Files next to the tokenizer are carried through a run, and through a Hugging Face folder.
TEST_F(Exports, TakeChatTemplatesAndGenerationConfigurationsAlong) {
  const std::map<std::string, std::string> wanted = {
      {"chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}"},
      {"generation_config.json", "{\"eos_token_id\": [1, 2], \"temperature\": 0.6}\n"}};
  for (const auto& [name, text] : wanted) write("tok/" + name, text);
  ASSERT_EQ(train({}).code, 0);
  fs::remove_all(folder_ / "tok");
  const std::string exported = path("run/exports/step-00000010");
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {path("run"), path("out")}, {path("again"), path("back")}}) {
    const Outcome converted = run({"convert", "--to", "hf", from, to});
    ASSERT_EQ(converted.code, 0) << converted.out;
    if (to == path("out")) {
      ASSERT_EQ(run({"convert", "--from", "hf", to, path("again")}).code, 0);
    }
    for (const auto& [name, text] : wanted) EXPECT_EQ(contents(fs::path(to) / name), text) << to;
  }
  for (const auto& [name, text] : wanted) EXPECT_EQ(contents(fs::path(exported) / name), text);
}

TEST_F(Exports, OfTheLastCheckpointAloneUnlessAnIntervalIsGiven) {
  ASSERT_EQ(train({"checkpoint.keep=1"}).code, 0);
  EXPECT_THAT(exported(), testing::ElementsAre("step-00000010"));
}

TEST_F(Exports, ThatAKillCutOffAreMadeUpFor) {
  ASSERT_EQ(train({}).code, 0);
  const fs::path exports = folder_ / "run/exports";
  const auto files = files_of(exports / "step-00000010");
  fs::rename(exports / "step-00000010", exports / "step-00000010.tmp");
  fs::remove(exports / "step-00000010.tmp/config.json");
  const Outcome outcome = train({});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(exported(), testing::ElementsAre("step-00000010"));
  EXPECT_EQ(files_of(exports / "step-00000010"), files);
}

TEST_F(Exports, OfEarlierStepsThatAreMissingAreMadeOrNamed) {
  const std::vector<std::string> all = {"checkpoint.export_interval=2", "checkpoint.keep=0"};
  ASSERT_EQ(train(all).code, 0);
  const fs::path exports = folder_ / "run/exports";
  const auto files = files_of(exports / "step-00000004");
  fs::remove_all(exports / "step-00000004");
  fs::rename(exports / "step-00000006", exports / "step-00000006.tmp");
  fs::remove_all(folder_ / "run/checkpoints/step-00000006");
  const Outcome outcome = train(all);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(exported(), testing::ElementsAre("step-00000002", "step-00000004", "step-00000008",
                                               "step-00000010"));
  EXPECT_EQ(files_of(exports / "step-00000004"), files);
  EXPECT_THAT(outcome.out, HasSubstr("the export of step 6 was interrupted, and its checkpoint"));
}

TEST_F(Exports, IntoAFolderThatCannotBeMadeAreRefused) {
  fs::create_directories(folder_ / "run");
  write("run/exports", "a file where the folder should be");
  const Outcome outcome = train({});
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("run/exports"));
  EXPECT_FALSE(fs::exists(folder_ / "run/checkpoints"));
}

TEST_F(Exports, ThatCannotBeAreRefusedBeforeTheRunStarts) {
  const std::pair<std::string, std::string> cases[] = {
      {"checkpoint.export_interval=3", "must be a multiple of checkpoint.interval = 2"},
      {"checkpoint.export=onnx", "checkpoint.export"},
      {"model.activation=relu2", "activation"},
  };
  for (const auto& [setting, message] : cases) {
    const Outcome outcome = run(train_arguments(
        "run", {"checkpoint.interval=2", "checkpoint.export=hf", "train.iters=4", setting}));
    EXPECT_EQ(outcome.code, 2) << setting << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(message));
    EXPECT_FALSE(fs::exists(folder_ / "run/checkpoints"));
  }
}

}  // namespace
}  // namespace trireme::testing_cli
