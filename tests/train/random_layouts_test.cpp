// Tests of exact numerics on random layouts: all give the same bits as one rank. A longer run:
// TRIREME_LAYOUTS=200 TRIREME_LAYOUTS_SEED=1 test_train --gtest_filter='RandomLayouts.*'
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/error.h"
#include "named.h"
#include "train/local_ranks.h"

namespace trireme {
namespace {

constexpr std::int64_t micro_batches = 12;  // for 1, 2, 3, 4 or 6 data-parallel ranks
constexpr int steps = 10;
using Names = std::vector<std::string>;

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

// bf16 moments are rounded by their position in the model, so no layout changes their bits either.
Config model_of(const std::string& family, const std::string& precision,
                const std::string& moments) {
  Config config = config_of(precision, micro_batches, family);
  config.optimizer.moment_dtype = named(moments);
  // A loss scale that starts far too high and doubles every second step overflows repeatedly.
  config.optimizer.initial_loss_scale = 0x1p24;
  config.optimizer.loss_scale_window = 2;
  config.optimizer.hysteresis = 1;
  return config;
}

std::filesystem::path folder() {
  return std::filesystem::temp_directory_path() / fmt::format("trireme_layouts_{}", ::getpid());
}

class Layouts {
 public:
  explicit Layouts(int seed) : random_(static_cast<unsigned>(seed)) {}

  // Sets a random layout that the configuration allows, on 1 to 8 ranks.
  int choose(Config& config) {
    for (;;) {
      ParallelConfig p = config.parallel;
      const int ranks = one_of(std::vector<int>{1, 2, 3, 4, 6, 8});
      p.pp = one_of(std::vector<int>{1, 2, 3, 4});
      p.schedule = named(one_of(Names{"gpipe", "1f1b", "interleaved", "zb1p", "zbv", "vhalf"}));
      p.virtual_stages = p.schedule == ScheduleKind::interleaved ? 2 : 1;
      p.cp = one_of(std::vector<int>{1, 2, 4});
      p.cp_attention = named(one_of(Names{"all_gather", "ulysses"}));
      p.ep = config.model.moe.num_experts > 0 ? one_of(std::vector<int>{1, 2, 4}) : 1;
      p.zero = one_of(std::vector<int>{0, 1, 2, 3});
      p.dp_replicate = one_of(std::vector<int>{1, 1, 2, 3});
      p.recompute = named(one_of(Names{"none", "selective", "full"}));
      p.stage_layers.clear();
      if (p.pp == 2 && p.schedule == ScheduleKind::one_f_one_b && one_of(std::vector<int>{0, 1}))
        p.stage_layers = {1, 3};
      if (p.pp == 3) p.stage_layers = {1, 2, 1};
      Config chosen = config;
      chosen.parallel = p;
      choose_offload(chosen);
      try {
        validate_layout(chosen, ranks);
      } catch (const Error&) {
        continue;  // try another layout
      }
      config = chosen;
      return ranks;
    }
  }
  int one_of(const std::vector<int>& values) { return values[index(values.size())]; }
  std::string one_of(const Names& values) { return values[index(values.size())]; }

 private:
  // Offloads something to files in half of all layouts.
  void choose_offload(Config& config) {
    OffloadConfig& offload = config.offload = {};
    offload.path = folder().string();
    const bool balances = config.model.moe.expert_bias || config.model.moe.keeps_load();
    if (!balances) offload.optimizer = named(one_of(Names{"none", "none", "host", "file"}));
    offload.activations = named(one_of(Names{"none", "none", "host", "file"}));
    offload.activation_layers =
        offload.activations == OffloadPlace::none ? 0 : one_of(std::vector<int>{0, 1, 2});
    const bool apart =
        config.run.precision != Precision::fp32 || offload.optimizer == OffloadPlace::file;
    if (config.parallel.zero == 3 && apart)
      offload.parameters = named(one_of(Names{"none", "host", "file"}));
  }
  std::size_t index(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
  }
  std::mt19937 random_;
};

std::string text_of(const Config& config, int ranks) {
  const ParallelConfig& p = config.parallel;
  const OffloadConfig& o = config.offload;
  return fmt::format(
      "{} {}, moments {}, {} ranks, pp {} {}, ZeRO {} x {}, recompute {}, {} stage_layers, block "
      "{}, cp {} {}, ep {}, offload {} {} {} of {} layers",
      config.model.is_latent()              ? "latent"
      : !config.model.mlp_layers.empty()    ? "parts"
      : !config.model.linear_layers.empty() ? "delta"
      : config.model.moe.residual           ? "residual"
      : config.model.moe.num_experts > 0    ? "experts"
                                            : config.model.family,
      config.run.precision, config.optimizer.moment_dtype, ranks, p.pp, p.schedule, p.zero,
      p.dp_replicate, p.recompute, p.stage_layers.size(), p.exact_block, p.cp, p.cp_attention, p.ep,
      o.optimizer, o.parameters, o.activations, o.activation_layers);
}

void expect_the_same_bits(const Names& families, int count) {
  Layouts layouts(from_environment("TRIREME_LAYOUTS_SEED", 1));
  std::map<std::array<std::string, 4>, Result> alone;
  std::int64_t skipped = 0;
  int in_files = 0;
  for (int i = 0; i < count; ++i) {
    // Half of the layouts use fp16, where all ranks must also agree on overflows.
    const std::string precision = i % 2 == 0 ? "fp16" : layouts.one_of(Names{"bf16", "fp32"});
    const auto family = layouts.one_of(families);
    const auto moments = layouts.one_of(Names{"fp32", "fp32", "bf16"});
    const int block = layouts.one_of(std::vector<int>{0, 1, 2});
    Config config = model_of(family, precision, moments);
    config.parallel.exact_block = block;
    if (block > 0) config.model.moe.capacity_factor = 0;  // which conflicts with cp
    const auto [reference, added] =
        alone.try_emplace({family, precision, moments, std::to_string(block)});
    if (added) reference->second = train(config, 1, steps);
    const Result& expected = reference->second;
    const int ranks = layouts.choose(config);
    SCOPED_TRACE(text_of(config, ranks));
    const Result result = train(config, ranks, steps);
    EXPECT_EQ(result.finite, expected.finite);
    EXPECT_EQ(result.losses, expected.losses);
    EXPECT_EQ(result.norms, expected.norms);
    EXPECT_TRUE(result.weights == expected.weights);  // and moments
    EXPECT_EQ(expected.skipped() > 0, precision == "fp16");
    skipped += result.skipped();
    in_files += config.offload.optimizer == OffloadPlace::file ||
                config.offload.parameters == OffloadPlace::file ||
                config.offload.activations == OffloadPlace::file;
  }
  testing::Test::RecordProperty("layouts", count);
  testing::Test::RecordProperty("skipped_steps", static_cast<int>(skipped));
  std::printf("%d layouts, %d of them with files, %d skipped steps\n", count, in_files,
              static_cast<int>(skipped));
  std::filesystem::remove_all(folder());
}

TEST(RandomLayouts, GiveTheSameBits) {
  expect_the_same_bits({"gpt", "llama", "experts", "latent", "residual"},
                       from_environment("TRIREME_LAYOUTS", 6));
}

TEST(RandomLayouts, GiveTheSameBitsWithMultiTokenPrediction) {
  expect_the_same_bits({"mtp llama", "mtp experts", "mtp latent"},
                       from_environment("TRIREME_LAYOUTS", 3));
}

TEST(RandomLayouts, GiveTheSameBitsWithFactorsOfTheLength) {
  expect_the_same_bits({"longrope"}, from_environment("TRIREME_LAYOUTS", 1));
}

TEST(RandomLayouts, GiveTheSameBitsWithChunks) {
  expect_the_same_bits({"llama4"}, from_environment("TRIREME_LAYOUTS", 2));
}

TEST(RandomLayouts, GiveTheSameBitsWithMamba) {
  expect_the_same_bits({"mamba", "mamba experts"}, from_environment("TRIREME_LAYOUTS", 2));
}

TEST(RandomLayouts, GiveTheSameBitsWithLayersOfOnePart) {
  expect_the_same_bits({"parts", "parts experts"}, from_environment("TRIREME_LAYOUTS", 4));
}

TEST(RandomLayouts, GiveTheSameBitsWithLinearAttention) {
  expect_the_same_bits({"delta", "delta experts", "mtp delta experts"},
                       from_environment("TRIREME_LAYOUTS", 4));
}

}  // namespace
}  // namespace trireme
