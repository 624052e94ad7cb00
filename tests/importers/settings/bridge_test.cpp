// Configurations that Megatron-Bridge saved: flags of Megatron-LM under the names of their fields.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "importers/megatron/flags/flags.h"
#include "importers/settings/bridge.h"
#include "importers/settings/bridge_file.h"
#include "importers/settings/fixture.h"

namespace trireme::settings {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Bridge : public Settings {
 protected:
  // The small file with other values ("": without the key), as JSON, which is YAML as well.
  SettingsFile with(const std::map<std::string, std::string>& values) const {
    return read("run_config.yaml", text_of(values), 8);
  }
  std::string refusal_with(const std::map<std::string, std::string>& values) const {
    return refusal("run_config.yaml", text_of(values), 8);
  }

 private:
  static std::string text_of(const std::map<std::string, std::string>& values) {
    auto all = bridge_file();
    for (const auto& [key, value] : values) {
      if (value.empty()) all.erase(key);
      if (value.empty()) continue;
      std::erase_if(all, [&](const auto& one) { return one.first.starts_with(key + "."); });
      all[key] = value;
    }
    Json root = Json::object();
    for (const auto& [key, value] : all) {
      std::stringstream parts(key);
      Json* json = &root;
      for (std::string part; std::getline(parts, part, '.');) json = &(*json)[part];
      *json = Json::parse(value);
    }
    return root.dump(1);
  }
};

// The dataset's mask is used only if its batches have one.
TEST_F(Bridge, AttentionStaysWithinDocumentsOnlyWithAMask) {
  const std::string reset = "dataset.reset_attention_mask";
  const std::string skips = "dataset.skip_getting_attention_mask_from_dataset";
  EXPECT_FALSE(config(with({{reset, "true"}})).data.reset_attention_mask);
  EXPECT_TRUE(config(with({{reset, "true"}, {skips, "false"}})).data.reset_attention_mask);
  EXPECT_FALSE(
      config(with({{reset, "true"}, {skips, "false"}, {"dataset.create_attention_mask", "false"}}))
          .data.reset_attention_mask);
}

// The values of mixed_precision replace the optimizer's, given or not.
TEST_F(Bridge, LossScalesAreThoseOfMixedPrecision) {
  std::map<std::string, std::string> values = {{"mixed_precision.bf16", "false"},
                                               {"mixed_precision.fp16", "true"},
                                               {"mixed_precision.loss_scale_window", "500"},
                                               {"optimizer.fp16", "true"},
                                               {"optimizer.hysteresis", "3"}};
  EXPECT_EQ(value(with(values), "optimizer.hysteresis"), "2");
  values["mixed_precision.hysteresis"] = "5";
  const SettingsFile file = with(values);
  EXPECT_EQ(lost(file), "");
  EXPECT_EQ(value(file, "optimizer.hysteresis"), "5");
  EXPECT_EQ(config(file).optimizer.loss_scale_window, 500);
  values["mixed_precision"] = "null";
  values["model.fp16"] = "true";
  std::erase_if(values, [](const auto& one) { return one.first.starts_with("mixed_precision."); });
  EXPECT_EQ(value(with(values), "optimizer.hysteresis"), "3");
}

// Without `mixed_precision`, each section has a type of its own.
TEST_F(Bridge, TypesMustAgree) {
  std::map<std::string, std::string> values = {
      {"mixed_precision", "null"}, {"model.bf16", "true"}, {"optimizer.bf16", "true"}};
  EXPECT_EQ(lost(with(values)), "");
  values["optimizer.bf16"] = "false";
  EXPECT_THAT(lost(with(values)),
              HasSubstr("optimizer.bf16 is false, but model.bf16 is true: the two must agree"));
  const std::string bf16 = "{\"_target_\": \"torch.bfloat16\"}";
  EXPECT_THAT(lost(with({{"mixed_precision", "null"}, {"model.params_dtype", bf16}})),
              HasSubstr("model.params_dtype is bf16, but the model computes in fp32"));
  EXPECT_EQ(lost(with({{"model.params_dtype", "{\"_target_\": \"torch.float16\"}"}})), "");
}

// A function that builds equal layers reads neither of them.
TEST_F(Bridge, LayersAreThoseThatTheirFunctionBuilds) {
  const std::string spec = "model.transformer_layer_spec";
  std::map<std::string, std::string> values = {
      {"model.num_moe_experts", "4"},
      {"model.moe_layer_freq", "[0, 1]"},
      {spec, "{\"_target_\": \"megatron.bridge.models.gpt_provider.default_layer_spec\"}"}};
  EXPECT_THAT(lost(with(values)),
              HasSubstr("model.moe_layer_freq has no effect with default_layer_spec"));
  values[spec] =
      "{\"_target_\": \"megatron.core.models.gpt.gpt_layer_specs.get_gpt_decoder_block_spec\"}";
  values["model.use_transformer_engine_full_layer_spec"] = "true";
  EXPECT_EQ(lost(with(values)), "");
  EXPECT_EQ(value(with(values), "moe.layers"), "[1]");
}

// Saved functions keep their numbers when a field changes.
TEST_F(Bridge, WeightsAreDrawnAsTheirFunctionsSay) {
  const auto normal = [](const char* std) {
    return fmt::format("{{\"_target_\": \"torch.nn.init.normal_\", \"mean\": 0.0, \"std\": {}}}",
                       std);
  };
  EXPECT_EQ(lost(with({{"model.init_method", normal("0.02")},
                       {"model.output_layer_init_method", normal("0.01")}})),
            "");
  EXPECT_THAT(
      lost(with({{"model.init_method", normal("0.02")}, {"model.init_method_std", "0.01"}})),
      HasSubstr("model.init_method draws with a mean of 0 and a standard deviation of 0.02"));
}

// GELU without a fused kernel is exact, and fusion is off unless it is asked for.
TEST_F(Bridge, GeluIsExactUnlessFused) {
  std::map<std::string, std::string> values = {
      {"model.activation_func._target_", "\"torch._C._nn.gelu\""},
      {"model.gated_linear_unit", "false"},
      {"model.add_bias_linear", "true"}};
  EXPECT_EQ(value(with(values), "model.activation"), "\"gelu_erf\"");
  values["model.bias_activation_fusion"] = "true";
  EXPECT_EQ(value(with(values), "model.activation"), "\"gelu_tanh\"");
}

TEST_F(Bridge, WhatIsNotUnderstoodIsNamed) {
  EXPECT_THAT(lost(with({{"scheduler.no_weight_decay_cond_type", "\"biases\""}})),
              HasSubstr("scheduler.no_weight_decay_cond_type"));
  EXPECT_THAT(refusal_with({{"dataset.blend_per_split", "2"}}),
              HasSubstr("dataset.blend_per_split is 2"));
}

TEST_F(Bridge, ALlamaIsRead) {
  const SettingsFile file = with({{"model.num_query_groups", "2"},
                                  {"model.rope_scaling", "true"},
                                  {"model.rope_scaling_factor", "32.0"},
                                  {"checkpoint.most_recent_k", "3"}});
  EXPECT_EQ(lost(file), "");
  EXPECT_EQ(file.system, System::bridge);
  const Config c = config(file);
  EXPECT_EQ(value(file, "model.family"), "\"llama\"");
  EXPECT_EQ(c.model.num_layers, 2);
  EXPECT_EQ(c.model.hidden_size, 64);
  EXPECT_EQ(c.model.num_kv_heads, 2);
  EXPECT_EQ(c.model.ffn_hidden_size, 160);
  EXPECT_EQ(c.model.vocab_size, 1000);
  EXPECT_EQ(value(file, "model.activation"), "\"swiglu\"");
  EXPECT_EQ(value(file, "model.rope_scaling"), "\"llama3\"");
  EXPECT_EQ(value(file, "model.rope_scaling_factor"), "32.0");
  EXPECT_EQ(value(file, "model.tie_embeddings"), "false");
  EXPECT_EQ(c.run.precision, Precision::bf16);
  EXPECT_EQ(c.train.global_batch_size, 64);
  EXPECT_EQ(c.train.iters, 10);
  EXPECT_THAT(c.data.path, ElementsAre("data/text"));
  EXPECT_EQ(c.checkpoint.keep, 3);
}

// Messages and comments name the keys of the file, not the flags.
TEST_F(Bridge, KeysAreNamedAsInTheFile) {
  const SettingsFile file = with({{"optimizer.decoupled_lr", "0.1"}});
  EXPECT_THAT(lost(file), testing::StartsWith("optimizer.decoupled_lr "));
  EXPECT_THAT(megatron::to_toml(file.translation), HasSubstr("# model.hidden_size"));
  EXPECT_THAT(megatron::to_toml(file.translation), Not(HasSubstr("--hidden-size")));
}

// The schedule's decay is that of all steps; the optimizer's own is overwritten.
TEST_F(Bridge, TheScheduleSetsTheWeightDecay) {
  const SettingsFile file = with({{"optimizer.weight_decay", "0.3"}});
  EXPECT_EQ(config(file).optimizer.weight_decay, 0.1);
  EXPECT_THAT(noted(file), HasSubstr("optimizer.weight_decay is 0.3, but scheduler.start"));
  EXPECT_THAT(lost(with({{"scheduler.end_weight_decay", "0.2"}})), HasSubstr("constant"));
  EXPECT_THAT(lost(with({{"scheduler.start_weight_decay", "null"}})), HasSubstr("is missing"));
}

// Coupled weight decay, whatever the order of the two keys.
TEST_F(Bridge, AdamIsReadWithEitherWeightDecay) {
  EXPECT_EQ(value(with({}), "optimizer.name"), "\"adamw\"");
  EXPECT_EQ(value(with({{"optimizer.decoupled_weight_decay", "false"}}), "optimizer.name"),
            "\"adam\"");
}

TEST_F(Bridge, PrecisionIsThatOfMixedPrecision) {
  EXPECT_EQ(config(with({{"model.bf16", "false"}})).run.precision, Precision::bf16);
}

// The name of a recipe is its values.
TEST_F(Bridge, RecipesAreReadByName) {
  const auto named = [this](const char* name) {
    return with({{"mixed_precision", fmt::format("\"{}\"", name)}});
  };
  for (const char* name : {"bf16_mixed", "bf16-mixed"}) {
    EXPECT_EQ(lost(named(name)), "");
    EXPECT_EQ(config(named(name)).run.precision, Precision::bf16);
  }
  const SettingsFile half = named("fp16_mixed");
  EXPECT_EQ(lost(half), "");
  EXPECT_EQ(config(half).run.precision, Precision::fp16);
  EXPECT_EQ(config(half).optimizer.initial_loss_scale, 4294967296);
  // With fp8, layers at the ends are in bf16, as many as the recipe has.
  for (const auto& [name, recipe, ends] :
       {std::tuple{"bf16_with_fp8_current_scaling_mixed", "tensorwise", 1},
        {"bf16_with_fp8_subchannel_scaling_mixed", "blockwise", 0},
        {"nemotron_h_bf16_with_fp8_current_scaling_mixed", "tensorwise", 2},
        {"nanov2-bf16-with-fp8-current-scaling-mixed", "blockwise", 2}}) {
    SCOPED_TRACE(name);
    const SettingsFile file =
        with({{"mixed_precision", fmt::format("\"{}\"", name)}, {"model.num_layers", "6"}});
    EXPECT_EQ(lost(file), "");
    const Config found = config(file);
    EXPECT_EQ(fmt::format("{}", found.fp8.recipe), recipe);
    EXPECT_EQ(found.fp8.first_layers_bf16, ends);
    EXPECT_EQ(found.fp8.last_layers_bf16, ends);
  }
  for (const auto& [name, why] :
       {std::pair{"bf16_with_fp8_delayed_scaling_mixed", "delayed scaling"},
        {"fp16_with_fp8_delayed_scaling_mixed", "delayed scaling"},
        {"bf16_with_mxfp8_mixed", "'mxfp8' is not supported"},
        {"bf16_with_nvfp4_mixed", "mixed_precision.fp4 is 'e2m1'"}})
    EXPECT_THAT(lost(named(name)), HasSubstr(why)) << name;
  for (const char* name : {"bf16_with_fp8_mixed", "fp32_mixed", "fp16_with_nvfp4_mixed", "mixed"})
    EXPECT_THAT(lost(named(name)), HasSubstr("not a recipe of Megatron-Bridge 0.3")) << name;
}

TEST_F(Bridge, ActivationsAreFunctions) {
  const auto activation_of = [&](const std::string& function, const std::string& gated) {
    return value(with({{"model.activation_func._target_", "\"" + function + "\""},
                       {"model.gated_linear_unit", gated},
                       {"model.bias_activation_fusion", "false"}}),
                 "model.activation");
  };
  EXPECT_EQ(activation_of("torch.nn.functional.silu", "true"), "\"swiglu\"");
  EXPECT_EQ(activation_of("torch._C._nn.gelu", "false"), "\"gelu_erf\"");
  EXPECT_EQ(activation_of("megatron.core.activations.squared_relu", "false"), "\"squared_relu\"");
  EXPECT_THAT(lost(with({{"model.activation_func._target_", "\"mine.relu\""}})),
              HasSubstr("'mine.relu' with gated_linear_unit = true"));
}

TEST_F(Bridge, OtherModelsAndDataAreLost) {
  for (const auto& [key, value, words] :
       {std::tuple{"model._target_", "\"a.GemmaModelProvider2B\"", "more than their fields say"},
        {"model._target_", "\"a.LlamaModelProviderOfMine\"", "more than their fields say"},
        {"model.transformer_layer_spec._target_", "\"mine.layers\"", "layers of its own"},
        {"dataset._target_", "\"mine.Dataset\"", "only Megatron's indexed datasets"},
        {"optimizer._target_", "\"mine.OptimizerConfig2\"", "not OptimizerConfig"},
        {"peft", "{\"dim\": 8}", "only adapters are trained"},
        {"optimizer_config_override_provider._target_", "\"mine.Rates\"", "rates of their own"},
        {"model.init_method._target_", "\"torch.nn.init.xavier_uniform_\"", "normal"},
        {"model.embedding_init_method_std", "0.5", "no standard deviation of its own"},
        {"model.surprise", "false", "not a known setting of Megatron-Bridge"},
        {"dist.surprise.depth", "1", ""}})
    EXPECT_THAT(lost(with({{key, value}})), HasSubstr(words)) << key;
  EXPECT_EQ(lost(with({{"model._target_", "\"a.b.Llama2ModelProvider70B\""}})), "");
}

TEST_F(Bridge, SizesMustAgree) {
  EXPECT_THAT(refusal_with({{"dataset.sequence_length", "32"}}),
              HasSubstr("dataset.sequence_length is 32, and model.seq_length is 64"));
  EXPECT_THAT(refusal_with({{"model.seq_length", "null"}}), HasSubstr("is null"));
  EXPECT_THAT(refusal_with({{"model.ffn_hidden_size", "null"}}), HasSubstr("is null"));
  EXPECT_THAT(refusal_with({{"dataset.blend", "[[\"a\", \"b\"], [0.5]]"}}),
              HasSubstr("has 2 paths and 1 weights"));
}

// Defaults of a class are its own, and some differ from those of the flags.
TEST_F(Bridge, KeysWithDefaultsOfTheirOwnMustBeThere) {
  EXPECT_THAT(refusal_with({{"model.normalization", ""}}),
              HasSubstr("model.normalization is missing, but Megatron-Bridge saves it"));
  EXPECT_EQ(lost(with({{"model.rope_scaling_factor", ""}})), "");
  EXPECT_THAT(refusal_with({{"model.rope_scaling_factor", ""}, {"model.rope_scaling", "true"}}),
              HasSubstr("model.rope_scaling_factor is missing"));
}

TEST_F(Bridge, BlendsAreWeighed) {
  EXPECT_THAT(config(with({{"dataset.blend", "[[\"a\", \"b\"], [0.25, 0.75]]"}})).data.path,
              ElementsAre("0.25", "a", "0.75", "b"));
  const Config c =
      config(with({{"dataset.blend", "null"},
                   {"dataset.blend_per_split", "[[[\"a\"], null], null, [[\"c\"], null]]"}}));
  EXPECT_THAT(c.data.train_path, ElementsAre("a"));
  EXPECT_THAT(c.data.test_path, ElementsAre("c"));
}

// A NullTokenizer adds the end of a document to its own size.
TEST_F(Bridge, VocabularyIsTheModels) {
  EXPECT_EQ(config(with({{"tokenizer.vocab_size", "17"}})).model.vocab_size, 1000);
  const SettingsFile file =
      with({{"tokenizer.tokenizer_type", "\"NullTokenizer\""}, {"tokenizer.vocab_size", "999"}});
  EXPECT_EQ(config(file).model.vocab_size, 1000);
}

TEST(BridgeTable, ItsFlagsAreMegatrons) {
  for (const BridgeFlag& row : bridge_flags())
    EXPECT_NE(megatron::find_flag(row.flag), nullptr) << row.flag;
}

// Keys that the optimizer, the data or the precision repeat, and what is read elsewhere.
constexpr std::string_view read_elsewhere[] = {
    "bf16",       "context_parallel_size",        "fp16",
    "fp8_recipe", "make_vocab_size_divisible_by", "max_position_embeddings"};

// What the flag of the same name refuses or carries over, its key may not pass.
TEST(BridgeTable, PassedKeysAreNoFlagsThatMatter) {
  for (const auto& [prefix, rows] : passed_bridge_keys())
    for (const Passed& row : rows) {
      std::string name = row.key;
      std::ranges::replace(name, '_', '-');
      const bool elsewhere = std::ranges::find(read_elsewhere, row.key) != std::end(read_elsewhere);
      if (row.values || elsewhere) continue;
      for (const char* start : {"--", "--no-"}) {
        const megatron::Flag* flag = megatron::find_flag(start + name);
        EXPECT_TRUE(!flag || flag->fate == megatron::Fate::ignored) << prefix << row.key;
      }
    }
}

}  // namespace
}  // namespace trireme::settings
