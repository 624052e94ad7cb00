// Tests adding a new kind as CONTRIBUTING.md describes: with two functions and a table row.
#include "formats/huggingface/kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/huggingface/names.h"
#include "refusal.h"

namespace trireme {
namespace {

using testing::HasSubstr;

// A GPT-2 with a scaled embedding, which no class of transformers computes.
ModelConfig read_toy(const HuggingFaceReader& json) {
  json.must_be("is_causal", true);
  ModelConfig m;
  m.num_layers = json.size("depth", "num_layers");
  m.hidden_size = json.size("width", "hidden_size");
  m.num_heads = json.size("heads", "num_heads", 2);
  m.max_positions = json.size("positions", "max_positions", 64);
  m.vocab_size = json.size("vocab_size", "vocab_size");
  m.scale_embedding = true;
  return m;
}

HuggingFaceJson write_toy(const ModelConfig& m) {
  return {{"depth", m.num_layers},
          {"width", m.hidden_size},
          {"heads", m.num_heads},
          {"positions", m.max_positions},
          {"vocab_size", m.vocab_size}};
}

constexpr HuggingFaceInertKey toy_keys[] = {{"color"}};

const HuggingFaceKind toy_kind{"ToyForCausalLM", "toy", &gpt2_names, read_toy, write_toy, toy_keys};

class ToyKind : public testing::Test {
 protected:
  void add() { huggingface_kinds().push_back(&toy_kind); }
  ~ToyKind() override { std::erase(huggingface_kinds(), &toy_kind); }

  static ModelConfig toy() {
    return parse_huggingface_config(
               R"({"model_type": "toy", "depth": 2, "width": 8, "vocab_size": 30, "color": "red"})",
               "config.json")
        .model;
  }
  static std::string refusal_of_file(const char* text) {
    return refusal_of([&] { parse_huggingface_config(text, "config.json"); });
  }
};

TEST_F(ToyKind, IsUnknownBeforeItIsAdded) {
  EXPECT_THAT(refusal_of_file(R"({"model_type": "toy"})"), HasSubstr("supported are gpt2, bloom"));
  add();
  ModelConfig model = toy();
  huggingface_kinds().pop_back();
  EXPECT_THAT(refusal_of([&] { huggingface_kind(model); }),
              HasSubstr("GPT2LMHeadModel has no equivalent of model.scale_embedding = true"));
}

TEST_F(ToyKind, GoesThereAndBackByItsRow) {
  add();
  const ModelConfig model = toy();
  EXPECT_EQ(model.position, PositionEncoding::learned);
  ASSERT_EQ(huggingface_kind(model), &toy_kind);
  const HuggingFaceModel out{&toy_kind, model, {}, ""};
  const std::string text = huggingface_config_text(out, "float32");
  EXPECT_THAT(text, HasSubstr("ToyForCausalLM"));
  const HuggingFaceModel again = parse_huggingface_config(text, "config.json");
  EXPECT_EQ(again.kind, &toy_kind);
  Config before, after;
  before.model = model;
  after.model = again.model;
  EXPECT_EQ(to_toml(after), to_toml(before));
  EXPECT_EQ(huggingface_mapping(out).theirs[0].name, "transformer.wte.weight");
}

TEST_F(ToyKind, IsRefusedForWhatItsFunctionsDoNotSay) {
  add();
  ModelConfig model = toy();
  model.qkv_bias = false;
  EXPECT_THAT(refusal_of([&] { huggingface_kind(model); }),
              HasSubstr("ToyForCausalLM has no equivalent of model.qkv_bias = false"));
  EXPECT_THAT(refusal_of_file(R"({"model_type": "toy", "depth": 2, "width": 8, "vocab_size": 30,
                                  "flavor": "red"})"),
              HasSubstr("flavor"));
}

}  // namespace
}  // namespace trireme
