// `trireme profile`: what it counts, and what it refuses.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class Profile : public Workspace {
 protected:
  Profile() { prepare_data(); }
  Outcome profile(std::vector<std::string> more) const {
    more.insert(more.begin(), {"profile", path("run.toml"), "--steps", "1"});
    return run(more);
  }
};

TEST_F(Profile, CountsTheOpsOfAStepAndWritesItsTrace) {
  const Outcome outcome =
      profile({"--json", "--machine", "h100", "--trace", path("trace.json"), "run.precision=fp32"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  const json all = json::parse(outcome.out);
  ASSERT_EQ(all["ranks"].size(), 1u);
  const json& rank = all["ranks"][0];
  std::map<std::string, json> ops;
  double spent = 0;
  for (const json& op : rank["ops"]) {
    ops[op["op"]] = op;
    spent += op["seconds"].get<double>();
  }
  // Four micro-batches; in each of two layers four linear layers, and the head.
  ASSERT_TRUE(ops.contains("linear")) << outcome.out;
  EXPECT_EQ(ops["linear"]["calls"], 4 * (2 * 4 + 1));
  EXPECT_EQ(ops["linear_weight_grad"]["flops"], ops["linear"]["flops"]);
  EXPECT_GT(ops["linear"]["share_of_limit"], 0);
  EXPECT_LE(spent, 1.001 * rank["seconds"].get<double>());
  EXPECT_GT(all["total"]["share_of_peak"], 0);
  std::int64_t bytes = 0;
  for (const json& region : rank["memory"]) bytes += region.get<std::int64_t>();
  EXPECT_EQ(rank["planned_bytes"], bytes);
  int of_linear = 0;
  for (const json& event : json::parse(contents(path("trace.json"))))
    of_linear += event["name"] == "linear";
  EXPECT_EQ(of_linear, ops["linear"]["calls"]);
  EXPECT_FALSE(fs::exists(path("runs")));
}

TEST_F(Profile, RefusesWhatItCannotCompareOrWrite) {
  EXPECT_EQ(profile({"--machine", "nowhere"}).code, 2);
  write("there.json", "");
  const Outcome there = profile({"--trace", path("there.json")});
  EXPECT_EQ(there.code, 2);
  EXPECT_THAT(there.out, HasSubstr("exists already: name another file"));
  const Outcome nowhere = profile({"--trace", path("no/folder/trace.json")});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_THAT(nowhere.out, HasSubstr("there is no folder"));
  EXPECT_THAT(nowhere.out, Not(HasSubstr("step")));
  EXPECT_EQ(profile({"parallel.tp=2"}).code, 2);
}

}  // namespace
}  // namespace trireme::testing_cli
