// Tests of what the startup of 5,120 ranks sends and opens, counted rank by rank over the
// operations that start a run.
#include "plan/start_up.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/isa.h"
#include "config/config.h"
#include "plan/machine.h"
#include "plan/small_config.h"

namespace trireme {
namespace {

// GPT-3 175B as on a cluster: tp 8, pp 16, dp 40, with states sharded over 40 ranks.
Config large(const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"model.preset=gpt3-175b",
                                       "model.vocab_size=50257",
                                       "train.iters=1",
                                       "optimizer.lr=1e-4",
                                       "run.precision=bf16",
                                       "run.device=hip",
                                       "parallel.tp=8",
                                       "parallel.pp=16",
                                       "parallel.zero=1",
                                       "train.micro_batch_size=1",
                                       "train.global_batch_size=1920",
                                       "data.path=tokens",
                                       "data.tokenizer=gpt2",
                                       "data.vocab_file=vocab.json",
                                       "data.merge_file=merges.txt"};
  settings.insert(settings.end(), more.begin(), more.end());
  Config config = parse_config("", "test", settings);
  validate(config);
  return config;
}

StartPlan start_of(const Config& config, int ranks, bool resumes, bool all_ranks = true) {
  return plan_start(
      config, ranks, find_machine("frontier").target,
      {.ranks_on_node = 8, .resumes = resumes, .config_file = "", .all_ranks = all_ranks});
}

const StartFiles& files_of(const StartPlan& start, const std::string& what) {
  for (const StartFiles& files : start.files)
    if (files.what == what) return files;
  static const StartFiles none;
  return none;
}

// The bounds of docs/operations.md: messages per rank grow with the logarithm of the number of
// ranks, files per rank are constant. `all_ranks`: every rank is counted; otherwise those of three
// nodes.
void expect_bounds(bool all_ranks) {
  constexpr int ranks = 5120;
  const double rounds = std::ceil(std::log2(ranks));
  for (const bool resumes : {false, true}) {
    const StartPlan start = start_of(large(), ranks, resumes, all_ranks);
    std::printf("%s", to_text(start).c_str());
    EXPECT_EQ(start.nodes, 640);
    EXPECT_LE(start.groups, 12);
    // 1 MiB pieces of the manifest are sent to as many ranks as a tree node has children.
    const double pieces =
        resumes
            ? static_cast<double>(files_of(start, "checkpoint: latest, manifest").bytes) / (1 << 20)
            : 0;
    EXPECT_LE(static_cast<double>(start.rank.messages), rounds * (40 + pieces + 1));
    EXPECT_LE(start.node.messages, 8 * start.rank.messages);
    EXPECT_EQ(files_of(start, "tokenizer").rank, 2);
    EXPECT_EQ(files_of(start, "tokens (.bin, .idx)").rank, 2);
    // The first and the last of 16 positions read tokens.
    EXPECT_EQ(files_of(start, "tokens (.bin, .idx)").readers, ranks / 8);
    EXPECT_LE(start.total.rank, 20);
    EXPECT_LE(start.total.node, 8 * 20);
    if (!resumes) continue;
    EXPECT_EQ(files_of(start, "checkpoint: latest, manifest").readers, 1);
    EXPECT_EQ(files_of(start, "checkpoint: shards").readers, ranks);
  }
}

TEST(StartUp, OfFiveThousandRanksIsBounded) {
  expect_bounds(false);
}

TEST(LongStartUp, OfEachOfFiveThousandRanksIsBounded) {
  expect_bounds(true);
}

TEST(StartUp, GrowsWithTheLogarithmOfTheRanks) {
  std::int64_t before = 0;
  for (const int ranks : {640, 1280, 2560}) {
    const StartPlan start = start_of(large(), ranks, false, false);
    if (before > 0) {
      EXPECT_LE(start.rank.messages, before + 40) << ranks;
    }
    before = start.rank.messages;
  }
}

TEST(StartUp, OfOneRankSendsNothing) {
  const StartPlan start = plan_start(small({"data.path=tokens"}), 1, cpu::this_machine(),
                                     {.ranks_on_node = 1, .resumes = true, .config_file = ""});
  EXPECT_EQ(start.rank.messages, 0);
  EXPECT_EQ(start.groups, 0);
  EXPECT_EQ(files_of(start, "checkpoint: shards").rank, 2);
}

}  // namespace
}  // namespace trireme
