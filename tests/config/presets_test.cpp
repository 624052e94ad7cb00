// Tests of presets: they set the sizes of published models, and leave everything else to the user.
#include "config/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "config/config.h"

namespace trireme {
namespace {

Config with(const std::string& model, const std::vector<std::string>& overrides = {}) {
  return parse_config("[model]\n" + model + "\n[train]\niters = 10\n[optimizer]\nlr = 1e-3\n",
                      "test", overrides);
}

TEST(Presets, AllAreValidModels) {
  for (const Preset& preset : all_presets()) {
    const Config config = with("preset = \"" + std::string(preset.name) + "\"");
    EXPECT_NO_THROW(validate(config)) << preset.name;
    EXPECT_EQ(config.model.vocab_size, 0) << preset.name;  // the tokenizer determines it
    EXPECT_GT(preset.vocabulary, 0);
  }
}

// Parameter counts of the models' own publications, in billions, with their vocabulary sizes.
TEST(Presets, HaveTheParametersThatTheirNamesSay) {
  const std::pair<const char*, double> sizes[] = {
      {"gpt2-124m", 0.124},   {"gpt2-355m", 0.355},  {"gpt2-774m", 0.774},  {"gpt2-1.5b", 1.558},
      {"gpt3-1.3b", 1.316},   {"gpt3-13b", 12.85},   {"gpt3-175b", 174.6},  {"llama2-7b", 6.738},
      {"llama2-13b", 13.02},  {"llama2-70b", 68.98}, {"llama3-8b", 8.030},  {"llama3-70b", 70.55},
      {"llama3-405b", 405.9}, {"bert-base", 0.110},  {"bert-large", 0.336},
  };
  for (const auto& [name, billions] : sizes) {
    const Preset* preset = find_preset(name);
    ASSERT_NE(preset, nullptr) << name;
    const ModelConfig m = with(std::string("preset = \"") + name + "\"").model;
    const double h = static_cast<double>(m.hidden_size),
                 ffn = static_cast<double>(m.ffn_hidden_size);
    const double kv = static_cast<double>(m.num_kv_heads * m.head_dim);
    const double mlp = m.activation == MlpActivation::swiglu ? 3 * h * ffn : 2 * h * ffn;
    const double words = static_cast<double>(preset->vocabulary) * h;
    const double count =
        static_cast<double>(m.num_layers) * (2 * h * h + 2 * h * kv + mlp) +
        words * (m.tie_embeddings ? 1 : 2) +
        (m.position == PositionEncoding::learned ? static_cast<double>(m.max_positions) * h : 0);
    // The count omits biases, norms and BERT's additional heads.
    EXPECT_NEAR(count / 1e9, billions, 0.012 * billions) << name;
  }
}

TEST(Presets, KeysThatAreSetWin) {
  const Config file = with("preset = \"llama3-8b\"\nseq_length = 4096\nnum_layers = 2");
  EXPECT_EQ(file.model.seq_length, 4096);
  EXPECT_EQ(file.model.num_layers, 2);
  EXPECT_EQ(file.model.num_kv_heads, 8);
  EXPECT_EQ(file.model.rope_base, 500000);
  EXPECT_EQ(file.model.norm, NormType::rms_norm);
  const Config command = with("num_layers = 12", {"model.preset=gpt2-124m", "model.num_heads=4"});
  EXPECT_EQ(command.model.num_heads, 4);
  EXPECT_EQ(command.model.num_layers, 12);
  // Writing and reading again changes nothing.
  EXPECT_EQ(to_toml(parse_config(to_toml(file), "again")), to_toml(file));
}

TEST(Presets, OfTheCommandLineAreRefusedWhereTheFileHasAnotherModel) {
  try {
    with("hidden_size = 64\nnum_heads = 4", {"model.preset=gpt2-124m", "model.num_heads=4"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("different model: model.hidden_size: 64, was 768. Remove"));
  }
  const Config agreed =
      with("hidden_size = 64", {"model.preset=gpt2-124m", "model.hidden_size=64"});
  EXPECT_EQ(agreed.model.hidden_size, 64);
  EXPECT_NO_THROW(with("preset = \"gpt2-124m\"\nhidden_size = 64", {"model.num_heads=4"}));
}

TEST(Presets, UnknownOnesNameTheNearest) {
  try {
    with("preset = \"gpt3-13B!\"");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean \"gpt3-13b\"?"));
  }
}

}  // namespace
}  // namespace trireme
