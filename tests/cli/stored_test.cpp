// Tests that this version reads what earlier versions wrote: configurations, token files and
// checkpoints, as CHANGELOG.md promises. Each folder of tests/cli/data that is named after a
// version has a run that was ended after its checkpoint of step 4, and the losses that the version
// computed in eight steps.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using json = nlohmann::json;

class Stored : public Workspace, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Workspace::SetUp();
    fs::copy(fs::path(TRIREME_TEST_DATA) / GetParam(), path("stored"), fs::copy_options::recursive);
  }
  std::string stored(const std::string& name) const { return path("stored/" + name); }
  std::vector<double> losses(const std::string& metrics_file) const {
    std::vector<double> losses;
    std::istringstream lines(contents(stored(metrics_file)));
    for (std::string line; std::getline(lines, line);)
      if (const json step = json::parse(line); step.contains("loss"))
        losses.push_back(step["loss"]);
    return losses;
  }
  void expect_the_same_training(const std::string& run_folder, std::size_t from) {
    const std::vector<double> expected = losses("metrics.jsonl");
    const std::vector<double> found = losses(run_folder + "/metrics.jsonl");
    ASSERT_EQ(expected.size(), 8u);
    ASSERT_GE(found.size(), 8u - from);
    // Rounding differs between instruction sets; a misread tensor shows in the first
    // digits.
    for (std::size_t i = from; i < 8; ++i)
      EXPECT_NEAR(found[found.size() - (8 - i)], expected[i], 1e-4) << "step " << i + 1;
  }
};

TEST_P(Stored, ConfigurationsAndTokenFilesTrain) {
  const Outcome outcome = run({"train", stored("run.toml"), "run.dir=" + stored("again"),
                               "data.path=" + stored("tokens_text_document")});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  expect_the_same_training("again", 0);
}

TEST_P(Stored, CheckpointsResume) {
  const Outcome outcome = run({"train", stored("run/config.toml"), "run.dir=" + stored("run"),
                               "data.path=" + stored("tokens_text_document")});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, testing::HasSubstr("step-00000004"));
  expect_the_same_training("run", 4);
}

TEST_P(Stored, CheckpointsAreInspectedAndConverted) {
  const Outcome inspected = run({"inspect", stored("run")});
  EXPECT_EQ(inspected.code, 0) << inspected.out;
  const Outcome converted = run({"convert", stored("run"), stored("hf"), "--to", "hf"});
  EXPECT_EQ(converted.code, 0) << converted.out;
  EXPECT_TRUE(fs::exists(stored("hf/config.json")));
}

INSTANTIATE_TEST_SUITE_P(Versions, Stored, testing::Values("0.1"), [](const auto& info) {
  return std::string("V") + info.param[0] + "_" + (info.param + 2);
});

}  // namespace
}  // namespace trireme::testing_cli
