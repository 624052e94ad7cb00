// Tests that every key of a config.json is read, rejected by name, or known to have no effect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/huggingface/config.h"
#include "formats/huggingface_references.h"
#include "refusal.h"

namespace trireme {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

Json content_of(const std::string& name) {
  return Json::parse(read_file(reference(name) / "config.json"));
}

HuggingFaceModel read_edited(const Json& json) {
  return parse_huggingface_config(json.dump(), "config.json");
}

std::string refused_for(const std::string& name, const Json& changes) {
  Json json = content_of(name);
  json.update(changes);
  return refusal_of([&] { read_edited(json); });
}

TEST(HuggingFaceKeys, UnknownOnesAreRefused) {
  for (const std::string& name : reference_models) {
    EXPECT_THAT(refused_for(name, {{"use_new_attention", true}}),
                HasSubstr("use_new_attention is true; unknown to Trireme"))
        << name;
    EXPECT_THAT(refused_for(name, {{"new_scale", nullptr}}), HasSubstr("new_scale is null"));
  }
  EXPECT_THAT(refused_for("gpt2", {{"rope_theta", 1e4}}), HasSubstr("rope_theta"));
  EXPECT_THAT(refused_for("llama", {{"clip_qkv", 8}}), HasSubstr("clip_qkv"));
  EXPECT_THAT(refused_for("llama", {{"layer_types", {"full_attention"}}}),
              HasSubstr("supported here is null"));
}

TEST(HuggingFaceKeys, ThoseThatChangeNothingPass) {
  const Json harmless = {{"_name_or_path", "x/y"},
                         {"transformers_version", "5.24.0"},
                         {"id2label", {{"0", "a"}}},
                         {"task_specific_params", {{"text-generation", {{"do_sample", true}}}}},
                         {"temperature", 0.6},
                         {"use_cache", false},
                         {"pretraining_tp", 2},
                         {"is_encoder_decoder", false},
                         {"quantization_config", nullptr},
                         {"auto_map", {{"AutoTokenizer", {"tokenization_x.X", nullptr}}}}};
  for (const std::string& name : reference_models)
    EXPECT_EQ(refused_for(name, harmless), "accepted") << name;
}

TEST(HuggingFaceKeys, WhatChangesTheModelIsRefused) {
  for (const std::string& name : reference_models) {
    const bool encoder = name.ends_with("bert");
    EXPECT_THAT(refused_for(name, {{"is_causal", encoder}}), HasSubstr("is_causal")) << name;
    EXPECT_THAT(refused_for(name, {{"is_causal", nullptr}}), HasSubstr("is_causal is null"))
        << name;
    EXPECT_EQ(refused_for(name, {{"is_causal", !encoder}}), "accepted") << name;
    EXPECT_THAT(refused_for(name, {{"per_layer_config", {{"0", {{"x", 1}}}}}}),
                HasSubstr("per_layer_config"));
    EXPECT_THAT(refused_for(name, {{"quantization", {{"bits", 4}}}}), HasSubstr("quantized"));
    EXPECT_THAT(refused_for(name, {{"tie_word_embeddings", nullptr}}),
                HasSubstr("tie_word_embeddings is null"));
    EXPECT_THAT(refused_for(name, {{"auto_map", {{"AutoModelForCausalLM", "modeling_x.Own"}}}}),
                HasSubstr("auto_map.AutoModelForCausalLM"));
  }
}

TEST(HuggingFaceKeys, TheFoldersOwnCodeMayBeThatOfTransformers) {
  Json json = content_of("llama");
  json["auto_map"] = {{"AutoConfig", "configuration_llama.LlamaConfig"},
                      {"AutoModelForCausalLM", "modeling_llama.LlamaForCausalLM"}};
  EXPECT_THAT(read_edited(json).note, HasSubstr("(auto_map) is not run"));
}

TEST(HuggingFaceKeys, TwoNamesOfASettingMustAgree) {
  EXPECT_EQ(refused_for("gpt2", {{"num_hidden_layers", content_of("gpt2").at("n_layer")}}),
            "accepted");
  EXPECT_THAT(refused_for("gpt2", {{"num_hidden_layers", 77}}),
              HasSubstr("num_hidden_layers is the number 77; it is another name for n_layer"));
  Json json = content_of("gpt2");
  json["hidden_size"] = json["n_embd"];
  json.erase("n_embd");
  EXPECT_EQ(read_edited(json).model.hidden_size, json["hidden_size"]);
}

// A Llama's config.json with unusual rotary parameters; tests expect the results of transformers.
Json rotary_file(const char* key, const Json& rope, const Json& more = Json::object()) {
  Json json = content_of("llama");
  for (const char* other : {"rope_parameters", "rope_scaling", "rope_theta"}) json.erase(other);
  json["max_position_embeddings"] = 64;
  json[key] = rope;
  json.update(more);
  return json;
}

ModelConfig read_rotation(const Json& json) {
  return read_edited(json).model;
}

TEST(HuggingFaceKeys, YarnOfFactorOneStillMultiplies) {
  const Json yarn = {
      {"rope_type", "yarn"}, {"factor", 1.0}, {"original_max_position_embeddings", 16}};
  EXPECT_EQ(read_rotation(rotary_file("rope_scaling", yarn)).rope_scaling, RopeScaling::none);
  Json more = yarn;
  more["attention_factor"] = 1.25;
  const HuggingFaceModel read = read_edited(rotary_file("rope_scaling", more));
  EXPECT_EQ(read.model.rope_scaling, RopeScaling::yarn);
  EXPECT_EQ(read.model.rope_attention_factor, 1.25);
  const HuggingFaceModel again =
      parse_huggingface_config(huggingface_config_text(read, "float32"), "config.json");
  EXPECT_EQ(again.model.rope_attention_factor, 1.25);
  more["attention_factor"] = 0.0;
  EXPECT_THAT(refusal_of([&] { read_edited(rotary_file("rope_scaling", more)); }),
              HasSubstr("rope_scaling.attention_factor is the number 0.0; it must be above 0"));
}

TEST(HuggingFaceKeys, BoundsOfYarnMayBeFractions) {
  const Json yarn = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}};
  EXPECT_TRUE(read_rotation(rotary_file("rope_scaling", yarn)).rope_truncate);
  for (const Json& value : {Json(false), Json(nullptr)}) {
    Json more = yarn;
    more["truncate"] = value;
    const HuggingFaceModel read = read_edited(rotary_file("rope_scaling", more));
    EXPECT_FALSE(read.model.rope_truncate) << value.dump();
    EXPECT_FALSE(parse_huggingface_config(huggingface_config_text(read, "float32"), "config.json")
                     .model.rope_truncate);
  }
  EXPECT_THAT(
      refusal_of([&] {
        read_edited(rotary_file("rope_scaling",
                                {{"rope_type", "linear"}, {"factor", 2.0}, {"truncate", false}}));
      }),
      HasSubstr("rope_scaling.truncate"));
}

TEST(HuggingFaceKeys, LengthsAndFactorsOfYarnFollowFromEachOther) {
  Json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}};
  EXPECT_EQ(read_rotation(rotary_file("rope_scaling", yarn)).rope_original_length, 64);
  EXPECT_EQ(
      read_rotation(rotary_file("rope_scaling", yarn, {{"original_max_position_embeddings", 8}}))
          .rope_original_length,
      8);
  yarn["original_max_position_embeddings"] = 16;
  EXPECT_EQ(
      read_rotation(rotary_file("rope_scaling", yarn, {{"original_max_position_embeddings", 8}}))
          .rope_original_length,
      8);
  yarn["factor"] = nullptr;
  EXPECT_EQ(read_rotation(rotary_file("rope_scaling", yarn)).rope_scaling_factor, 4);
  yarn["original_max_position_embeddings"] = 128;
  EXPECT_THAT(refusal_of([&] { read_edited(rotary_file("rope_scaling", yarn)); }),
              HasSubstr("rope_scaling.factor is null"));
}

TEST(HuggingFaceKeys, TwoMscalesGiveTheAmplitude) {
  Json yarn = {{"rope_type", "yarn"},
               {"factor", 4.0},
               {"original_max_position_embeddings", 16},
               {"mscale", 0.7}};
  EXPECT_EQ(read_rotation(rotary_file("rope_scaling", yarn)).rope_attention_factor, 0);
  yarn["mscale_all_dim"] = 0.5;
  const ModelConfig m = read_rotation(rotary_file("rope_scaling", yarn));
  EXPECT_NEAR(m.rope_attention_factor, (0.07 * std::log(4.0) + 1) / (0.05 * std::log(4.0) + 1),
              1e-15);
  EXPECT_EQ(m.attention_scale, 0);
}

TEST(HuggingFaceKeys, BothRotaryKeysMustAgree) {
  const Json linear = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 1e4}};
  const auto both = [&](const Json& scaling) {
    return rotary_file("rope_parameters", linear, {{"rope_scaling", scaling}});
  };
  EXPECT_EQ(read_rotation(both(linear)).rope_scaling_factor, 2);
  EXPECT_EQ(read_rotation(both(nullptr)).rope_scaling_factor, 2);
  EXPECT_EQ(read_rotation(both(Json::object())).rope_scaling_factor, 2);
  EXPECT_THAT(refusal_of([&] {
                read_edited(both({{"rope_type", "linear"}, {"factor", 4.0}}));
              }),
              HasSubstr("differs from rope_parameters"));
  // Advice from a model card applied to a transformers 5 file, which would lose the base.
  const Json plain = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  EXPECT_THAT(refusal_of([&] {
                read_edited(rotary_file("rope_parameters", plain,
                                        {{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}}));
              }),
              HasSubstr("rope_theta = 10000"));
  EXPECT_EQ(
      read_rotation(rotary_file("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}},
                                {{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}}))
          .rope_scaling_factor,
      4);
}

TEST(HuggingFaceKeys, KeysOfAnotherKindOfScalingAreRefused) {
  const Json linear = {{"rope_type", "linear"}, {"factor", 2.0}, {"attention_factor", 1.5}};
  EXPECT_THAT(refusal_of([&] { read_edited(rotary_file("rope_scaling", linear)); }),
              HasSubstr("rope_scaling.attention_factor"));
  EXPECT_THAT(refusal_of([&] {
                read_edited(rotary_file("rope_parameters", {{"rope_theta", 1e4}, {"factor", 2.0}}));
              }),
              HasSubstr("rope_parameters.factor"));
  EXPECT_THAT(refusal_of([&] {
                read_edited(rotary_file(
                    "rope_scaling", {{"rope_type", "linear"}, {"type", "yarn"}, {"factor", 2.0}}));
              }),
              HasSubstr("rope_scaling.type"));
}

// An activation can have several names.
TEST(HuggingFaceKeys, SwishIsSilu) {
  EXPECT_EQ(refused_for("llama", {{"hidden_act", "swish"}}), "accepted");
  EXPECT_THAT(refused_for("llama", {{"hidden_act", "gelu"}}), HasSubstr("only silu is supported"));
  EXPECT_EQ(refused_for("gpt2", {{"activation_function", "gelu_python"}}), "accepted");
}

}  // namespace
}  // namespace trireme
