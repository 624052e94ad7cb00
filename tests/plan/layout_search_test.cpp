// Tests that a search examines few layouts closely, and finds what an exhaustive search finds.
#include "plan/layout_search.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "config/schedules.h"
#include "plan/host_memory.h"
#include "plan/layout_bounds.h"
#include "plan/layout_memory.h"
#include "plan/small_config.h"

namespace trireme {
namespace {

using testing::HasSubstr;

constexpr std::int64_t MiB = std::int64_t{1} << 20;

Config tiny(const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"run.device=hip", "model.num_layers=2",
                                       "train.micro_batch_size=1", "train.global_batch_size=4"};
  settings.insert(settings.end(), more.begin(), more.end());
  return small(settings);
}

std::string message_of(const auto& body) {
  try {
    body();
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
}

std::int64_t planned(const LayoutPlan& plan) {
  std::int64_t most = 0;
  for (const RankPlan& rank : plan.ranks) most = std::max(most, rank.device_bytes());
  return most;
}

std::int64_t on_host(const LayoutPlan& plan, int ranks_on_node) {
  std::vector<std::int64_t> of_position;
  for (const RankPlan& rank : plan.ranks) of_position.push_back(rank.host_bytes());
  return on_fullest_node(of_position, plan.mesh.size(), ranks_on_node);
}

// Layouts of all kinds, for models with and without features that make ranks differ.
TEST(LayoutBounds, AreNeverAboveThePlan) {
  const Machine machine = find_machine("lumi-g");
  const Stack& stack = find_stack("trireme");
  std::mt19937 random(1);
  for (const std::vector<std::string>& model :
       {std::vector<std::string>{"model.family=llama", "train.global_batch_size=16"},
        {"model.tie_embeddings=true", "model.vocab_size=4000", "model.num_layers=6"},
        {"model.seq_length=32768", "model.family=llama", "train.global_batch_size=8"},
        {"run.gradient_dtype=bf16", "model.seq_length=256", "model.hidden_size=256"},
        {"offload.optimizer=host", "offload.activations=host", "checkpoint.async=true"},
        // Layers that differ: full attention in the first, in later ones, experts in every other
        // one, or bf16 in the last ones.
        {"model.seq_length=2048", "model.attention_window=64", "model.window_layers=[1,2,3]"},
        {"model.seq_length=2048", "model.attention_window=64", "model.window_layers=[0,1]"},
        {"model.family=llama", "model.seq_length=1024", "model.attention_window=32",
         "model.window_layers=[0,2]", "moe.num_experts=4", "moe.layers=[1,2]"},
        {"model.hidden_size=128", "fp8.recipe=tensorwise", "fp8.last_layers_bf16=1",
         "model.attention_window=16", "model.window_layers=[2]"}}) {
    const Config config = small([&] {
      std::vector<std::string> all = {"run.device=hip"};
      all.insert(all.end(), model.begin(), model.end());
      return all;
    }());
    const RankSet set{16, 8, 64 * MiB};
    const LayoutSpace space = layout_space(config, set);
    ASSERT_GT(space.layouts.size(), 100u);
    const CostModel costs = costs_of_plan(config, machine, stack);
    LayoutBounds bounds(config, set.ranks, machine, &costs);
    for (int i = 0; i < 12; ++i) {
      const Layout& layout = space.layouts[random() % space.layouts.size()];
      SCOPED_TRACE(layout_text(layout, set.ranks));
      const Config one = with_layout(config, layout);
      validate(one);
      validate_layout(one, set.ranks);
      const LayoutPlan plan = plan_layout(one, set.ranks, machine.target);
      const LayoutMemory memory = layout_memory(one, set, machine.target);
      EXPECT_EQ(memory.needed, planned(plan));
      EXPECT_GE(memory.on_host, on_host(plan, set.ranks_per_node));
      if (one.parallel.pp == 1) {
        EXPECT_EQ(memory.on_host, on_host(plan, set.ranks_per_node));
      }
      EXPECT_LE(bounds.memory(layout), planned(plan));
      const double seconds = plan_time(plan, one, machine, stack).seconds;
      EXPECT_LE(bounds.seconds(layout), seconds * (1 + 1e-9));
      EXPECT_GT(bounds.seconds(layout), 0.05 * seconds);
    }
  }
}

// Includes schedules that will be added later.
TEST(LayoutBounds, KnowWhatEveryScheduleHolds) {
  const Machine machine = find_machine("lumi-g");
  for (const ScheduleEntry& entry : all_schedules()) {
    for (const int batch : {2, 8, 24}) {
      const Config config = small(
          {"run.device=hip", "model.num_layers=8", "model.seq_length=512",
           "train.micro_batch_size=1", fmt::format("train.global_batch_size={}", batch),
           "parallel.pp=4", fmt::format("parallel.schedule={}", entry.name),
           fmt::format("parallel.virtual_stages={}", entry.chunks == ChunkRule::several ? 2 : 1)});
      SCOPED_TRACE(fmt::format("{}, {} micro-batches", entry.name, batch));
      LayoutBounds bounds(config, 4, machine, nullptr);
      EXPECT_LE(bounds.memory({config.parallel, config.train.micro_batch_size}),
                planned(plan_layout(config, 4, machine.target)));
    }
  }
}

TEST(LayoutSearch, FindsWhatLookingAtAllLayoutsFinds) {
  const Machine machine = find_machine("lumi-g");
  struct Case {
    std::vector<std::string> model;
    std::int64_t memory;
  };
  const std::vector<std::string> short_sequences = {"model.hidden_size=512",
                                                    "model.seq_length=128"};
  for (const auto& [model, memory] :
       {Case{short_sequences, std::int64_t{1} << 36},
        {short_sequences, 1764 * MiB},
        // The first layer takes ten times as long as the others.
        {{"model.hidden_size=512", "model.seq_length=8192", "model.num_layers=4",
          "model.attention_window=64", "model.window_layers=[1,2,3]"},
         std::int64_t{1} << 36}}) {
    const Config config = tiny(model);
    const RankSet set{2, 8, memory};
    const LayoutSearch pruned = search_layouts(config, set, machine);
    const LayoutSearch all = search_layouts(config, set, machine, {.exhaustive = true});
    ASSERT_EQ(pruned.best.size(), 5u);
    ASSERT_EQ(all.best.size(), 5u);
    std::vector<double> seconds;
    for (const FoundLayout& found : all.best) seconds.push_back(found.time.seconds);
    for (std::size_t i = 0; i < seconds.size(); ++i)
      EXPECT_EQ(pruned.best[i].time.seconds, seconds[i]);
    const SearchCounts& counts = pruned.counts;
    EXPECT_EQ(counts.considered, all.counts.considered);
    EXPECT_EQ(counts.considered, counts.too_large_at_least + counts.too_slow_at_least +
                                     counts.too_large + counts.too_large_on_host + counts.refused +
                                     counts.simulated);
    EXPECT_LT(counts.simulated, all.counts.simulated);
    for (const FoundLayout& found : pruned.best) EXPECT_LE(found.needed, pruned.limit);
  }
}

// Two ranks with full states do not fit on their host; ranks that share them do.
TEST(LayoutSearch, LeavesOutWhatHasNoRoomOnAHost) {
  const Machine machine = find_machine("lumi-g");
  const Config config = tiny({"model.hidden_size=512", "model.seq_length=128",
                              "offload.optimizer=host", "checkpoint.async=true"});
  RankSet set{2, 8, std::int64_t{1} << 36};
  const auto kept_by = [&](const FoundLayout& found) {
    return layout_memory(with_layout(config, found.layout), set, machine.target).on_host;
  };
  const LayoutSearch roomy = search_layouts(config, set, machine, {.exhaustive = true});
  EXPECT_EQ(roomy.counts.too_large_on_host, 0);
  set.host = 640 * MiB;
  const LayoutSearch tight = search_layouts(config, set, machine, {.exhaustive = true});
  ASSERT_FALSE(tight.best.empty());
  EXPECT_GT(tight.counts.too_large_on_host, 0);
  EXPECT_LT(tight.counts.simulated, roomy.counts.simulated);
  for (const FoundLayout& found : tight.best) EXPECT_LE(kept_by(found), usable_of(set.host));
  set.host = 8 * MiB;
  const LayoutSearch none = search_layouts(config, set, machine);
  EXPECT_TRUE(none.best.empty());
  EXPECT_GT(none.closest_on_host, usable_of(set.host));
}

// The printed lines, written to a file, give the same layout.
TEST(LayoutSpace, IsWrittenAsItIsRead) {
  const Config config = tiny({"parallel.schedule=zbv", "parallel.pp=1", "parallel.zero=3"});
  const LayoutSpace space = layout_space(config, {4, 4, 0});
  for (std::size_t i = 0; i < space.layouts.size(); i += 7) {
    const Layout& layout = space.layouts[i];
    const std::string expected = to_toml(with_layout(config, layout));
    std::vector<std::string> words = {
        "run.device=hip",        "model.num_layers=2", "train.global_batch_size=4",
        "parallel.schedule=zbv", "parallel.zero=3",    "train.micro_batch_size=1"};
    const std::vector<std::string> more = layout_overrides(layout, config);
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(to_toml(small(words)), expected);
    const Config lines = parse_config(layout_toml(layout), "test");
    EXPECT_EQ(to_toml(with_layout(config, {lines.parallel, lines.train.micro_batch_size})),
              expected);
  }
}

TEST(LayoutSpace, HoldsLayoutsThatRun) {
  const Config config = small({"run.device=hip", "train.global_batch_size=48"});
  for (const Layout& layout : layout_space(config, {12, 4, 0}).layouts) {
    const Config one = with_layout(config, layout);
    EXPECT_NO_THROW(validate(one));
    EXPECT_NO_THROW(validate_layout(one, 12)) << layout_text(layout, 12);
  }
}

// GPUs share sequences with long chunks.
TEST(LayoutSpace, HasContextParallelismForLongSequences) {
  const auto most_context = [](const char* length) {
    const Config config = small({"run.device=hip", length});
    std::int64_t most = 0;
    for (const Layout& layout : layout_space(config, {16, 8, 0}).layouts) {
      most = std::max(most, layout.parallel.cp);
      EXPECT_NO_THROW(validate_layout(with_layout(config, layout), 16)) << layout_text(layout, 16);
    }
    return most;
  };
  EXPECT_EQ(most_context("model.seq_length=8192"), 1);
  EXPECT_EQ(most_context("model.seq_length=65536"), 8);
}

TEST(LayoutSearch, SaysWhatWouldWork) {
  const Machine machine = find_machine("lumi-g");
  EXPECT_THAT(message_of([&] {
                search_layouts(tiny({"train.global_batch_size=5"}), {16, 8, 1 << 30}, machine);
              }),
              HasSubstr("train.global_batch_size = 5 is not possible with any layout on 16 ranks"));
  EXPECT_THAT(message_of([&] {
                search_layouts(tiny(), {7, 8, 1 << 30}, machine);
              }),
              HasSubstr("the number of ranks can be 4 or 8"));
}

TEST(LayoutSearch, KnowsHowManyRanksAModelNeeds) {
  const Machine machine = find_machine("lumi-g");
  const Config config =
      parse_config("", "test",
                   {"model.preset=gpt3-13b", "model.vocab_size=50257", "train.iters=1",
                    "optimizer.lr=1e-4", "train.global_batch_size=64", "run.device=hip"});
  const RankSet set{2, 2, std::int64_t{64} << 30};
  const LayoutSearch search = search_layouts(config, set, machine);
  EXPECT_TRUE(search.best.empty());
  EXPECT_GT(search.closest, search.limit);
  const int fewest = fewest_ranks(config, set, machine);
  EXPECT_GE(fewest, 4);
  EXPECT_LE(fewest, 8);
}

TEST(Guideline, IsTheNearestRow) {
  EXPECT_EQ(guideline_for(13e9, 16).tp, 8);
  EXPECT_EQ(guideline_for(70e9, 32).pp, 4);
  EXPECT_EQ(guideline_for(65e9, 512).pp, 2);
  EXPECT_EQ(guideline_for(1e12, 8).ranks, 128);
  EXPECT_EQ(guideline_for(1e6, 1).ranks, 4);
}

}  // namespace
}  // namespace trireme
