// Tests of config.json in both directions, rotary positions and ranges; unsupported files are
// rejected, and the model determines the kind.
#include "formats/huggingface/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/huggingface_references.h"

namespace trireme {
namespace {

using testing::HasSubstr;

TEST(HuggingFaceConfig, IsRead) {
  const HuggingFaceModel llama = read_huggingface_config(reference("llama"));
  EXPECT_EQ(llama.kind, &llama_kind);
  EXPECT_EQ(llama.model.num_kv_heads, 2);
  EXPECT_EQ(llama.model.head_dim, 8);
  EXPECT_EQ(llama.model.rope_base, 5000);
  EXPECT_EQ(llama.model.norm_eps, 1e-5);
  EXPECT_EQ(llama.tokens.bos, 1);
  EXPECT_EQ(llama.model.activation, MlpActivation::swiglu);
  EXPECT_FALSE(llama.model.tie_embeddings);
  EXPECT_FALSE(llama.model.bias);
  const HuggingFaceModel tied = read_huggingface_config(reference("llama_tied"));
  EXPECT_TRUE(tied.model.tie_embeddings);
  EXPECT_TRUE(tied.model.qkv_bias);
  const HuggingFaceModel gpt2 = read_huggingface_config(reference("gpt2"));
  EXPECT_EQ(gpt2.model.activation, MlpActivation::gelu_tanh);
  EXPECT_EQ(gpt2.model.ffn_hidden_size, 64);
  EXPECT_EQ(gpt2.model.max_positions, 24);
}

TEST(HuggingFaceConfig, GoesThereAndBack) {
  for (const std::string& name : reference_models) {
    HuggingFaceModel first = read_huggingface_config(reference(name));
    first.tokens = {1, 2, -1, {}};
    const std::string text = huggingface_config_text(first, "float32");
    const HuggingFaceModel again = parse_huggingface_config(text, "config.json");
    EXPECT_EQ(again.kind, first.kind);
    EXPECT_EQ(again.tokens.eos, 2);
    EXPECT_EQ(again.tokens.pad, -1);
    Config before, after;
    before.model = first.model;
    after.model = again.model;
    EXPECT_EQ(to_toml(after), to_toml(before));
    const auto json = nlohmann::json::parse(text);
    EXPECT_EQ(json.at("torch_dtype"), "float32");
    EXPECT_EQ(json.at("eos_token_id"), 2);
    EXPECT_TRUE(json.at("pad_token_id").is_null());
    EXPECT_TRUE(json.contains("tie_word_embeddings"));
    EXPECT_EQ(json.contains("rope_theta"), first.kind == &llama_kind);
  }
}

// transformers generates by generation_config.json; config.json often lacks the ends of turns.
TEST(HuggingFaceConfig, GenerationConfigNamesTheEnds) {
  const fs::path folder = fs::path(testing::TempDir()) / "trireme_generation_config";
  fs::remove_all(folder);
  fs::create_directories(folder);
  fs::copy_file(reference("llama") / "config.json", folder / "config.json");
  const HuggingFaceModel before = read_huggingface_config(folder);
  const auto with = [&](const std::string& text) {
    std::ofstream(folder / "generation_config.json") << text;
    return read_huggingface_config(folder);
  };
  EXPECT_EQ(with(R"({"eos_token_id": null})").tokens.eos, before.tokens.eos);
  EXPECT_EQ(with(fmt::format(R"({{"eos_token_id": [{}]}})", before.tokens.eos)).note, before.note);
  const HuggingFaceModel turns = with(R"({"eos_token_id": [5, 7], "pad_token_id": 3})");
  EXPECT_EQ(turns.tokens.eos, 5);
  EXPECT_EQ(turns.tokens.further_eos, std::vector<std::int64_t>{7});
  EXPECT_THAT(turns.note, HasSubstr("tokens of generation_config.json (5, 7)"));
  EXPECT_THROW(with("[]"), Error);
  fs::remove_all(folder);
}

TEST(HuggingFaceConfig, ScaledRotaryPositionsAreWrittenAsOldReadersWantThem) {
  const auto written = [](const std::string& name) {
    const HuggingFaceModel model = read_huggingface_config(reference(name));
    return nlohmann::json::parse(huggingface_config_text(model, "float32")).at("rope_scaling");
  };
  // The format before 4.43: these two keys, and a factor with a decimal point.
  EXPECT_EQ(written("linear_rope").dump(), R"({"factor":2.5,"type":"linear"})");
  EXPECT_EQ(written("llama3_rope").at("rope_type"), "llama3");
  EXPECT_EQ(written("llama3_rope").size(), 5u);
  EXPECT_TRUE(written("llama").is_null());
}

TEST(HuggingFaceConfig, TokensOutsideTheVocabularyAreNone) {
  auto json = nlohmann::json::parse(read_file(reference("gpt2") / "config.json"));
  json["bos_token_id"] = 50256;
  json["eos_token_id"] = {50256, 60, 3};
  const SpecialTokens tokens = parse_huggingface_config(json.dump(), "config.json").tokens;
  EXPECT_EQ(tokens.bos, -1);
  EXPECT_EQ(tokens.eos, 60);
  EXPECT_THAT(tokens.further_eos, testing::ElementsAre(3));
}

std::string config_refusal(const std::string& name, const char* key, const nlohmann::json& value) {
  auto json = nlohmann::json::parse(read_file(reference(name) / "config.json"));
  if (key == std::string("rope_scaling")) json.erase("rope_parameters");
  json[key] = value;
  if (value.is_null()) json.erase(key);
  try {
    parse_huggingface_config(json.dump(), "config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  return "accepted";
}

TEST(HuggingFaceConfig, ReadsScaledRotaryPositions) {
  const ModelConfig llama3 = read_huggingface_config(reference("llama3_rope")).model;
  EXPECT_EQ(llama3.rope_scaling, RopeScaling::llama3);
  EXPECT_EQ(llama3.rope_scaling_factor, 4);
  EXPECT_EQ(llama3.rope_low_freq_factor, 1);
  EXPECT_EQ(llama3.rope_high_freq_factor, 3);
  EXPECT_EQ(llama3.rope_original_length, 24);
  EXPECT_EQ(llama3.rope_base, 500);
  const ModelConfig linear = read_huggingface_config(reference("linear_rope")).model;
  EXPECT_EQ(linear.rope_scaling, RopeScaling::linear);
  EXPECT_EQ(linear.rope_scaling_factor, 2.5);
  EXPECT_EQ(linear.rope_base, 500);
}

TEST(HuggingFaceConfig, RefusesOtherScaledRotaryPositions) {
  const auto refusal = [](const nlohmann::json& scaling) {
    return config_refusal("llama", "rope_scaling", scaling);
  };
  EXPECT_EQ(refusal({{"rope_type", "default"}}), "accepted");
  EXPECT_EQ(refusal({{"type", "linear"}, {"factor", 1}}), "accepted");
  EXPECT_EQ(refusal({{"type", "linear"}, {"factor", 8}}), "accepted");
  EXPECT_THAT(
      refusal({{"rope_type", "proportional"}, {"factor", 8}}),
      HasSubstr("rope_scaling.rope_type is the string \"proportional\"; supported are default, "
                "linear, llama3, yarn, longrope and dynamic"));
  EXPECT_EQ(refusal({{"type", "dynamic"}, {"factor", 8}}), "accepted");
  nlohmann::json longrope = {{"rope_type", "longrope"},
                             {"short_factor", {1, 1, 1, 1}},
                             {"long_factor", {2, 3, 4.5, 6}},
                             {"original_max_position_embeddings", 16}};
  EXPECT_EQ(refusal(longrope), "accepted");
  longrope["attention_factor"] = 0;
  EXPECT_THAT(refusal(longrope), HasSubstr("attention_factor is the number 0; it must be above 0"));
  longrope["attention_factor"] = 1.25;
  longrope["long_factor"] = {2, 3, 4.5};
  EXPECT_THAT(refusal(longrope), HasSubstr("a number for each of the 4 rotary frequencies"));
  longrope["long_factor"] = {2, 3, 4.5, 0};
  EXPECT_THAT(refusal(longrope), HasSubstr("are numbers above 0"));
  longrope.erase("long_factor");
  EXPECT_THAT(refusal(longrope), HasSubstr("long_factor is absent; rope_type longrope requires"));
  nlohmann::json yarn = {
      {"rope_type", "yarn"}, {"factor", 8}, {"original_max_position_embeddings", 16}};
  EXPECT_EQ(refusal(yarn), "accepted");
  yarn["mscale"] = 0.707;
  EXPECT_EQ(refusal(yarn), "accepted");
  yarn["finetuned"] = true;
  EXPECT_THAT(refusal(yarn), HasSubstr("rope_scaling.finetuned is true; unknown to Trireme"));
  EXPECT_THAT(refusal({{"type", "linear"}}), HasSubstr("lacks 'rope_scaling.factor'"));
  EXPECT_THAT(refusal({{"type", "linear"}, {"factor", "8"}}),
              HasSubstr("rope_scaling.factor is the string \"8\"; it must be a number"));
  EXPECT_THAT(refusal({{"type", "linear"}, {"factor", 0.5}}), HasSubstr("at least 1"));
  EXPECT_THAT(refusal({{"rope_type", "llama3"}, {"factor", 8}}),
              HasSubstr("lacks 'rope_scaling.low_freq_factor'"));
  EXPECT_THAT(refusal({{"rope_type", "llama3"},
                       {"factor", 8},
                       {"low_freq_factor", 4},
                       {"high_freq_factor", 3},
                       {"original_max_position_embeddings", 8}}),
              HasSubstr("must not be below model.rope_low_freq_factor"));
  EXPECT_THAT(refusal(7), HasSubstr("rope_scaling is the number 7; it must be an object"));
}

// The reference ignores the factor in Llama models, or fails when positions are scaled.
TEST(HuggingFaceConfig, PartialRotaryPositionsAreReadAsTheReferenceDoes) {
  auto json = nlohmann::json::parse(read_file(reference("llama") / "config.json"));
  EXPECT_EQ(parse_huggingface_config(json.dump(), "config.json").note, "");
  json["partial_rotary_factor"] = 0.5;
  HuggingFaceModel model = parse_huggingface_config(json.dump(), "config.json");
  EXPECT_EQ(model.model.rope_percent, 1);
  EXPECT_THAT(model.note, HasSubstr("partial_rotary_factor has no effect"));
  json.erase("partial_rotary_factor");
  json["rope_parameters"] = {{"rope_theta", 500}, {"partial_rotary_factor", 0.5}};
  model = parse_huggingface_config(json.dump(), "config.json");
  EXPECT_EQ(model.model.rope_percent, 1);
  EXPECT_THAT(model.note, HasSubstr("partial_rotary_factor has no effect"));
  EXPECT_THAT(config_refusal("linear_rope", "partial_rotary_factor", 0.5),
              HasSubstr("partial_rotary_factor is the number 0.5; only 1 is supported"));
}

TEST(HuggingFaceConfig, RefusesWhatItWouldGetWrong) {
  EXPECT_THAT(config_refusal("gpt2", "model_type", "mamba"),
              HasSubstr("supported are gpt2, bloom, llama"));
  EXPECT_THAT(config_refusal("gpt2", "model_type", nullptr), HasSubstr("lacks 'model_type'"));
  EXPECT_THAT(config_refusal("gpt2", "n_layer", nullptr), HasSubstr("lacks 'n_layer'"));
  EXPECT_THAT(config_refusal("gpt2", "n_layer", "2"), HasSubstr("n_layer is the string \"2\""));
  EXPECT_THAT(config_refusal("gpt2", "n_layer", -1), HasSubstr("from 1 to 100000"));
  EXPECT_THAT(config_refusal("gpt2", "n_layer", 1e300), HasSubstr("from 1 to 100000"));
  EXPECT_THAT(config_refusal("gpt2", "activation_function", "mish"), HasSubstr("mish"));
  EXPECT_THAT(config_refusal("gpt2", "scale_attn_by_inverse_layer_idx", true),
              HasSubstr("scale_attn_by_inverse_layer_idx is true"));
  EXPECT_THAT(config_refusal("gpt2", "n_head", 3), HasSubstr("model"));
  EXPECT_THAT(config_refusal("llama", "rope_parameters", {{"rope_theta", "x"}}),
              HasSubstr("rope_parameters.rope_theta is the string \"x\"; it must be a number"));
  EXPECT_THAT(config_refusal("llama", "attention_bias", true), HasSubstr("attention_bias"));
  EXPECT_THAT(config_refusal("llama", "tie_word_embeddings", 1), HasSubstr("true or false"));
  EXPECT_THAT(config_refusal("bert", "position_embedding_type", "relative_key"),
              HasSubstr("relative_key"));
  EXPECT_EQ(config_refusal("llama", "rope_scaling", {{"type", "default"}}), "accepted");
  EXPECT_THAT([] { parse_huggingface_config("[]", "config.json"); },
              testing::ThrowsMessage<Error>(HasSubstr("config.json")));
  EXPECT_THAT([] { parse_huggingface_config("{", "config.json"); },
              testing::ThrowsMessage<Error>(HasSubstr("not JSON")));
}

// Otherwise we would write a checkpoint whose own configuration is rejected.
TEST(HuggingFaceConfig, RefusesNumbersOutsideTheRangesOfTheConfiguration) {
  const std::tuple<const char*, const char*, double, const char*> cases[] = {
      {"gpt2", "layer_norm_epsilon", 0, "layer_norm_epsilon is the number 0.0; it must be above 0"},
      {"gpt2", "resid_pdrop", 1,
       "resid_pdrop is the number 1.0; it must be at least 0 and below 1"},
      {"gpt2", "initializer_range", -1, "initializer_range is the number -1.0"},
      {"llama", "rope_theta", 0, "rope_theta is the number 0.0; it must be above 0"},
      {"bert", "attention_probs_dropout_prob", 1.5, "attention_probs_dropout_prob is"},
  };
  for (const auto& [name, key, value, message] : cases)
    EXPECT_THAT(config_refusal(name, key, value), HasSubstr(message)) << key;
  nlohmann::json scaling = {{"rope_type", "llama3"},
                            {"factor", 8},
                            {"low_freq_factor", 0},
                            {"high_freq_factor", 4},
                            {"original_max_position_embeddings", 8}};
  EXPECT_THAT(config_refusal("llama", "rope_scaling", scaling),
              HasSubstr("rope_scaling.low_freq_factor is the number 0; it must be above 0"));
  scaling["factor"] = 1e7;
  EXPECT_THAT(config_refusal("llama", "rope_scaling", scaling),
              HasSubstr("rope_scaling.factor is the number 10000000.0; it must be at least 1"));
}

TEST(HuggingFaceKind, FollowsFromTheModel) {
  ModelConfig m = read_huggingface_config(reference("gpt2")).model;
  EXPECT_EQ(huggingface_kind(m), &gpt2_kind);
  m.norm = NormType::rms_norm;
  EXPECT_THAT([&] { huggingface_kind(m); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("GPT2LMHeadModel has no equivalent of model.norm = \"rms_norm\"")));
  m = read_huggingface_config(reference("llama")).model;
  m.family = "gpt";
  EXPECT_EQ(huggingface_kind(m), &llama_kind);
  m.qkv_bias = true;
  EXPECT_EQ(huggingface_kind(m), &qwen2_kind);
  m.qk_norm = true;
  EXPECT_EQ(huggingface_kind(m), &glm4_moe_kind);  // without experts
  m.qkv_bias = false;
  EXPECT_EQ(huggingface_kind(m), &qwen3_kind);
  m.qk_norm_over = NormSpan::all_heads;
  EXPECT_THAT([&] { huggingface_kind(m); },
              testing::ThrowsMessage<Error>(HasSubstr(
                  "Qwen3ForCausalLM has no equivalent of model.qk_norm_over = \"all_heads\"")));
  m.norm_placement = NormPlacement::output;
  EXPECT_EQ(huggingface_kind(m), &olmo2_kind);
  m.attention_window = 4;
  EXPECT_EQ(huggingface_kind(m), &olmo3_kind);
  m.norm_placement = NormPlacement::pre;
  m.qk_norm = false;
  EXPECT_EQ(huggingface_kind(m), &mistral_kind);
  m.attention_window = 0;
  m.rope_percent = 0.5;
  EXPECT_EQ(huggingface_kind(m), &phi3_kind);
  m.rope_scaling = RopeScaling::linear;
  m.rope_scaling_factor = 2;
  m.embedding_norm = true;
  EXPECT_THAT([&] { huggingface_kind(m); },
              testing::ThrowsMessage<Error>(HasSubstr("embedding_norm = true")));
}

}  // namespace
}  // namespace trireme
