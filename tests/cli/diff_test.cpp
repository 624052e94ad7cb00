// Tests of `trireme diff` from a user's view: two runs, an export, and paths without a checkpoint.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

class Diff : public Workspace {
 protected:
  Outcome diff(const std::string& a, const std::string& b,
               std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"diff", path(a), path(b)});
    return run(more);
  }
};

TEST_F(Diff, FindsWhereTwoRunsPart) {
  prepare_data();
  const std::vector<std::string> same = {"train.iters=4", "parallel.numerics=exact"};
  const auto with = [&](const std::string& setting) {
    std::vector<std::string> settings = same;
    settings.push_back(setting);
    return settings;
  };
  ASSERT_EQ(train("one", same).code, 0);
  ASSERT_EQ(train("two", with("parallel.recompute=full")).code, 0);
  const Outcome equal = diff("one", "two");
  EXPECT_EQ(equal.code, 0) << equal.out;
  EXPECT_THAT(equal.out, HasSubstr("equal: "));
  EXPECT_THAT(equal.out, HasSubstr("parallel.recompute: \"none\" | \"full\""));
  ASSERT_EQ(train("three", with("optimizer.weight_decay=0.5")).code, 0);
  const Outcome other = diff("one", "three");
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.out,
              HasSubstr("first in the order of the forward pass: 'embedding.word.weight'"));
  EXPECT_EQ(diff("one", "three", {"--quiet"}).out, "");
  const Outcome earlier = diff("one", "one/checkpoints/step-00000002", {"--json"});
  EXPECT_EQ(earlier.code, 1);
  const auto json = nlohmann::json::parse(earlier.out);
  EXPECT_EQ(json.at("positions").at("step"), (nlohmann::json{"4", "2"}));
  EXPECT_EQ(json.at("first"), "embedding.word.weight");
  EXPECT_FALSE(json.at("tensors").empty());

  const Outcome exported =
      run({"convert", "--verify", "--to", "hf", path("one"), path("hf"), "--dtype", "bf16"});
  EXPECT_EQ(exported.code, 0) << exported.out;
  EXPECT_THAT(exported.out, HasSubstr("verified by reading it back: equal: "));
  EXPECT_EQ(diff("one", "hf").code, 1);
  EXPECT_EQ(diff("one", "hf", {"--rounded"}).code, 0);
  EXPECT_EQ(diff("three", "hf", {"--rounded"}).code, 1);
}

TEST_F(Diff, RefusesWhatCannotBeCompared) {
  const auto refused = [](const Outcome& outcome, const char* message) {
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(message));
  };
  const std::string llama = (fs::path(TRIREME_TESTS) / "formats/data/hf/llama").string();
  ASSERT_EQ(run({"convert", "--verify", llama, path("run")}).code, 0);
  refused(diff("run", "run/checkpoints/step-00000000"), "are the same folder");
  refused(diff("run", "none"), "does not exist");
  fs::create_directories(path("empty"));
  refused(diff("run", "empty"), "not in a supported format");
  refused(diff("run", "run/config.toml"), "a folder was expected");
  refused(run({"diff", path("run")}), "b is required");
}

}  // namespace
}  // namespace trireme::testing_cli
