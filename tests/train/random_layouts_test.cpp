// Exact numerics on layouts that a seed chooses: all give the same bits as one rank. A longer run:
// TRIREME_LAYOUTS=200 TRIREME_LAYOUTS_SEED=1 test_train --gtest_filter='RandomLayouts.*'
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/error.h"
#include "train/local_ranks.h"

namespace trireme {
namespace {

constexpr std::int64_t micro_batches = 8;
constexpr int steps = 10;

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

Config model_of(const std::string& family, const std::string& precision) {
  Config config = config_of(precision, micro_batches, family);
  // A scale that starts far too high and doubles every second step: overflows again and again.
  config.optimizer.initial_loss_scale = 0x1p24;
  config.optimizer.loss_scale_window = 2;
  config.optimizer.hysteresis = 1;
  return config;
}

class Layouts {
 public:
  explicit Layouts(int seed) : random_(static_cast<unsigned>(seed)) {}

  // Sets a layout that the configuration allows, on 1 to 8 ranks.
  int choose(Config& config) {
    for (;;) {
      ParallelConfig p = config.parallel;
      const int ranks = one_of({1, 2, 4, 8});
      p.pp = one_of({1, 2, 4});
      p.schedule = one_of<std::string>({"gpipe", "1f1b", "interleaved", "zb1p", "zbv", "vhalf"});
      p.virtual_stages = p.schedule == "interleaved" ? 2 : 1;
      p.zero = one_of({0, 1, 2, 3});
      p.dp_replicate = one_of({1, 1, 2});
      p.recompute = one_of<std::string>({"none", "selective", "full"});
      p.stage_layers.clear();
      if (p.pp == 2 && p.schedule == "1f1b" && one_of({0, 1})) p.stage_layers = {1, 3};
      Config chosen = config;
      chosen.parallel = p;
      try {
        validate_layout(chosen, ranks);
      } catch (const Error&) {
        continue;  // another one
      }
      config = chosen;
      return ranks;
    }
  }
  template <class T>
  T one_of(std::vector<T> values) {
    return values[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random_)];
  }

 private:
  std::mt19937 random_;
};

std::string text_of(const Config& config, int ranks) {
  const ParallelConfig& p = config.parallel;
  return fmt::format("{} {}, {} ranks, pp {} {}, ZeRO {} x {}, recompute {}, {} stage_layers",
                     config.model.family, config.run.precision, ranks, p.pp, p.schedule, p.zero,
                     p.dp_replicate, p.recompute, p.stage_layers.size());
}

TEST(RandomLayouts, GiveTheSameBits) {
  const int count = from_environment("TRIREME_LAYOUTS", 6);
  Layouts layouts(from_environment("TRIREME_LAYOUTS_SEED", 1));
  std::map<std::pair<std::string, std::string>, Result> alone;
  std::int64_t skipped = 0;
  for (int i = 0; i < count; ++i) {
    // Every second one in fp16, where overflows have to agree too.
    const std::string precision =
        i % 2 == 0 ? "fp16" : layouts.one_of<std::string>({"bf16", "fp32"});
    Config config = model_of(layouts.one_of<std::string>({"gpt", "llama"}), precision);
    const auto [reference, added] = alone.try_emplace({config.model.family, precision});
    if (added) reference->second = train(config, 1, steps);
    const Result& expected = reference->second;
    const int ranks = layouts.choose(config);
    SCOPED_TRACE(text_of(config, ranks));
    const Result result = train(config, ranks, steps);
    EXPECT_EQ(result.finite, expected.finite);
    EXPECT_EQ(result.losses, expected.losses);
    EXPECT_EQ(result.norms, expected.norms);
    EXPECT_TRUE(result.weights == expected.weights);
    EXPECT_EQ(expected.skipped() > 0, precision == "fp16");
    skipped += result.skipped();
  }
  RecordProperty("layouts", count);
  RecordProperty("skipped_steps", static_cast<int>(skipped));
  std::printf("%d layouts, %d skipped steps\n", count, static_cast<int>(skipped));
}

}  // namespace
}  // namespace trireme
