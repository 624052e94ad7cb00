// Tests of `trireme profile`: its counts, and the requests that it refuses.
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

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
  // Four micro-batches; four linear layers in each of two layers, and the head.
  ASSERT_TRUE(ops.contains("linear")) << outcome.out;
  EXPECT_EQ(ops["linear"]["calls"], 4 * (2 * 4 + 1));
  EXPECT_EQ(ops["linear_weight_grad"]["flops"], ops["linear"]["flops"]);
  EXPECT_GT(ops["linear"]["share_of_limit"], 0);
  EXPECT_LE(spent, 1.001 * rank["seconds"].get<double>());
  EXPECT_GT(all["total"]["share_of_peak"], 0);
  std::int64_t bytes = 0;
  for (const json& region : rank["memory"]) bytes += region.get<std::int64_t>();
  EXPECT_EQ(rank["planned_bytes"], bytes);
  // Micro-batches run one after another: each allocates what is kept for it, then releases it.
  ASSERT_EQ(rank["in_flight"].size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    const std::int64_t held = rank["in_flight"][i][1];
    EXPECT_EQ(held > 0, i % 2 == 0) << i;
    EXPECT_LE(held, rank["planned_bytes"].get<std::int64_t>());
    EXPECT_LE(rank["in_flight"][i][0], rank["in_flight_seconds"]);
  }
  int of_linear = 0;
  for (const json& event : json::parse(contents(path("trace.json"))))
    of_linear += event["name"] == "linear";
  EXPECT_EQ(of_linear, ops["linear"]["calls"]);
  EXPECT_FALSE(fs::exists(path("runs")));
}

// Ranges are nested: passes in steps, segments in passes, ops in segments.
TEST_F(Profile, NamesRangesForProfilersOfVendors) {
  const auto ranges = [&](const std::string& level) {
    const Outcome outcome = run({"train", path("run.toml"), "run.dir=" + path("run-" + level),
                                 "train.iters=2", "train.eval_iters=0", "optimizer.warmup_iters=1"},
                                {{"TRIREME_RANGES", level},
                                 {"TRIREME_RANGES_LIBRARY", TRIREME_TEST_PROFILER},
                                 {"TRIREME_TEST_RANGES", path("ranges")}});
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    std::istringstream lines(contents(path("ranges")));
    std::map<std::string, int> depths;
    int depth = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line == "end") {
        --depth;
      } else {
        const auto [at, is_new] = depths.emplace(line, ++depth);
        EXPECT_TRUE(is_new || at->second == depth) << line;
      }
      EXPECT_GE(depth, 0);
    }
    EXPECT_EQ(depth, 0);
    return depths;
  };
  EXPECT_EQ(ranges("step"), (std::map<std::string, int>{{"step 0", 1}, {"step 1", 1}}));
  const std::map<std::string, int> ops = ranges("op");
  EXPECT_EQ(ops.at("step 1"), 1);
  EXPECT_EQ(ops.at("forward 0"), 2);
  EXPECT_EQ(ops.at("segment 1"), 3);
  EXPECT_EQ(ops.at("linear"), 4);
  EXPECT_EQ(ops.at("optimizer"), 2);
}

TEST_F(Profile, RefusesRangesWithoutALibrary) {
  const auto with = [&](const std::string& level, const std::string& library) {
    return run({"profile", path("run.toml"), "--steps", "1"},
               {{"TRIREME_RANGES", level}, {"TRIREME_RANGES_LIBRARY", library}});
  };
  const Outcome nowhere = with("op", path("no-library.so"));
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_THAT(nowhere.out, HasSubstr("set TRIREME_RANGES_LIBRARY to one"));
  const Outcome unknown = with("ops", TRIREME_TEST_PROFILER);
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.out, HasSubstr("it must be one of step, pass, segment, op"));
}

TEST_F(Profile, RefusesWhatItCannotCompareOrWrite) {
  EXPECT_EQ(profile({"--machine", "nowhere"}).code, 2);
  write("there.json", "");
  const Outcome there = profile({"--trace", path("there.json")});
  EXPECT_EQ(there.code, 2);
  EXPECT_THAT(there.out, HasSubstr("already exists: choose another file"));
  const Outcome nowhere = profile({"--trace", path("no/folder/trace.json")});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_THAT(nowhere.out, HasSubstr("does not exist"));
  EXPECT_THAT(nowhere.out, Not(HasSubstr("step")));
  EXPECT_EQ(profile({"parallel.tp=2"}).code, 2);
}

}  // namespace
}  // namespace trireme::testing_cli
