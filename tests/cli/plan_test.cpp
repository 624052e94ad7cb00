// `trireme plan` for programs: what its JSON holds.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace trireme::testing_cli {
namespace {

class Plan : public Workspace {};

TEST_F(Plan, TellsProgramsWhatItTellsPeople) {
  prepare_data();
  const Outcome outcome = run({"plan", path("run.toml"), "--ranks", "8", "--json", "parallel.pp=2",
                               "model.num_layers=4", "parallel.schedule=zbv",
                               "train.micro_batch_size=1", "train.global_batch_size=16"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  const auto plan = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(plan.at("ranks"), 8);
  EXPECT_EQ(plan.at("degrees").at("dp"), 4);
  EXPECT_EQ(plan.at("degrees").at("pp"), 2);
  EXPECT_EQ(plan.at("schedule"), "zbv");
  EXPECT_EQ(plan.at("virtual_stages"), 2);
  EXPECT_EQ(plan.at("micro_batches"), 4);
  ASSERT_EQ(plan.at("pipeline_ranks").size(), 2u);
  // Each rank runs 4 micro-batches x 2 chunks x 3 passes of equal length. ZBV has no stall; the
  // second rank waits for the first pass of the first one, and the first for as long at the end.
  EXPECT_NEAR(plan.at("bubble").get<double>(), 1.0 / 25, 1e-12);
  for (const auto& rank : plan["pipeline_ranks"]) {
    EXPECT_EQ(rank.at("micro_batches_held"), 2);  // zbv holds as many as there are stages
    EXPECT_GT(rank.at("messages_sent"), 0);
    EXPECT_NEAR(rank.at("idle").get<double>(), 1.0 / 25, 1e-12);
    std::int64_t sum = 0;
    for (const auto& [name, bytes] : rank.at("memory").items()) sum += bytes.get<std::int64_t>();
    EXPECT_EQ(rank.at("memory_total"), sum);
    // No tensor parallelism, ZeRO 0: only activations and gradients travel.
    EXPECT_EQ(rank.at("bytes_sent").at("tensor"), 0);
    EXPECT_EQ(rank.at("bytes_sent").at("parameters"), 0);
    EXPECT_GT(rank.at("bytes_sent").at("pipeline"), 0);
    EXPECT_GT(rank.at("bytes_sent").at("gradients"), 0);
  }
}

}  // namespace
}  // namespace trireme::testing_cli
