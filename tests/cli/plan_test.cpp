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
  for (const auto& rank : plan["pipeline_ranks"]) {
    EXPECT_EQ(rank.at("micro_batches_held"), 2);  // zbv holds as many as there are stages
    EXPECT_GT(rank.at("messages_sent"), 0);
    EXPECT_GE(rank.at("idle"), 0);
    EXPECT_LT(rank.at("idle"), 1);
    std::int64_t sum = 0;
    for (const auto& [name, bytes] : rank.at("memory").items()) sum += bytes.get<std::int64_t>();
    EXPECT_EQ(rank.at("memory_total"), sum);
    for (const char* what : {"tensor", "pipeline", "gradients", "parameters"})
      EXPECT_GE(rank.at("bytes_sent").at(what), 0);
  }
}

}  // namespace
}  // namespace trireme::testing_cli
