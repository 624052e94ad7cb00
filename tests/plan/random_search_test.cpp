// Tests with random models whose layers differ: a search equals an exhaustive search.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <random>

#include "plan/layout_search.h"
#include "plan/small_config.h"
#include "sample.h"

namespace trireme {
namespace {

class RandomModel {
 public:
  explicit RandomModel(int seed) : random_(static_cast<unsigned>(seed)) {}

  std::vector<std::string> settings() {
    const int layers = number(2, 6);
    const int heads = 1 << number(1, 3), width = 32 << number(0, 1);
    seq_ = 1024 << number(0, 4);  // so that windows matter
    set("model.family", one_in(2) ? "llama" : "gpt");
    set("model.num_layers", layers);
    set("model.num_heads", heads);
    set("model.hidden_size", heads * width);
    set("model.seq_length", seq_);
    set("model.vocab_size", number(100, 8000));
    set("train.micro_batch_size", 1);
    set("train.global_batch_size", 4 << number(0, 2));
    add_windows(layers);
    if (one_in(2))
      add_experts(layers);
    else if (one_in(3))
      add_fp8(layers);
    if (one_in(4)) set("model.tie_embeddings", "true");
    if (one_in(6)) set("run.gradient_dtype", "bf16");
    return std::move(settings_);
  }
  // Either enough for all layouts, or so little that some do not fit.
  std::int64_t memory() {
    constexpr std::int64_t of_the_driver = std::int64_t{1568} << 20;
    return one_in(2) ? std::int64_t{1} << 36 : of_the_driver + (std::int64_t{1} << number(26, 31));
  }
  int ranks() { return 1 << number(1, 2); }
  const char* machine() { return one_in(2) ? "lumi-g" : "h100"; }

 private:
  int number(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  bool one_in(int count) { return number(1, count) == 1; }
  template <class Value>
  void set(const char* key, const Value& value) {
    settings_.push_back(fmt::format("{}={}", key, value));
  }
  std::vector<int> some_layers(int layers) {
    std::vector<int> some;
    for (int layer = 0; layer < layers; ++layer)
      if (one_in(2)) some.push_back(layer);
    if (some.empty()) some.push_back(number(0, layers - 1));
    return some;
  }
  void add_windows(int layers) {
    if (one_in(5)) return;
    set("model.attention_window", number(8, one_in(3) ? seq_ : seq_ / 16));
    if (!one_in(4)) set("model.window_layers", some_layers(layers));
  }
  void add_experts(int layers) {
    set("moe.num_experts", 2 << number(0, 1));
    if (one_in(2)) set("moe.layers", some_layers(layers));
    if (one_in(3)) set("moe.shared_ffn_hidden_size", 64);
  }
  void add_fp8(int layers) {
    set("fp8.recipe", "tensorwise");
    set("fp8.first_layers_bf16", number(0, layers / 2));
    set("fp8.last_layers_bf16", number(0, layers / 2));
  }

  std::mt19937 random_;
  int seq_ = 0;
  std::vector<std::string> settings_;
};

void search_and_look_at_all(int seed) {
  RandomModel model(seed);
  std::vector<std::string> settings = model.settings();
  const RankSet set{model.ranks(), 8, model.memory()};
  const Machine machine = find_machine(model.machine());
  settings.push_back(fmt::format("run.device={}", name_of(machine.target.device)));
  SCOPED_TRACE(fmt::format("{} on {} ranks of {}, {} bytes", fmt::join(settings, " "), set.ranks,
                           machine.name, set.memory));
  const Config config = small(settings);
  validate(config);
  const LayoutSearch pruned = search_layouts(config, set, machine);
  const LayoutSearch all = search_layouts(config, set, machine, {.exhaustive = true});
  ASSERT_EQ(pruned.best.size(), all.best.size());
  for (std::size_t i = 0; i < all.best.size(); ++i)
    EXPECT_EQ(pruned.best[i].time.seconds, all.best[i].time.seconds)
        << layout_text(pruned.best[i].layout, set.ranks) << " instead of "
        << layout_text(all.best[i].layout, set.ranks);
}

TEST(SlowRandomSearch, FindsWhatLookingAtAllLayoutsFinds) {
  const int models = in_long_tests(60, 6);
  for (int seed = 0; seed < models; ++seed) search_and_look_at_all(seed);
}

}  // namespace
}  // namespace trireme
