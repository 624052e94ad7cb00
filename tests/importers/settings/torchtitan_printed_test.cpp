// Configurations that torchtitan prints since February 2026: models module by module, and what
// they say about the training.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "importers/settings/fixture.h"
#include "importers/settings/printed_model.h"

namespace trireme::settings {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class PrintedTorchtitan : public Settings {
 protected:
  SettingsFile file_of(const Json& json, std::int64_t ranks = 8) const {
    return read("printed.json", json.dump(2), ranks);
  }
  std::string refusal_of(const Json& json) const { return refusal("printed.json", json.dump(), 8); }
};

TEST_F(PrintedTorchtitan, ALlamaIsRead) {
  Json json = printed_llama();
  json["model_spec"]["model"]["enable_weight_tying"] = true;
  const SettingsFile file = file_of(json);
  EXPECT_EQ(lost(file), "");
  const Config c = config(file);
  EXPECT_EQ(c.model.num_layers, 3);
  EXPECT_EQ(c.model.hidden_size, 32);
  EXPECT_EQ(c.model.num_heads, 4);
  EXPECT_EQ(c.model.num_kv_heads, 2);
  EXPECT_EQ(c.model.head_dim, 8);
  EXPECT_EQ(c.model.ffn_hidden_size, 80);
  EXPECT_EQ(c.model.vocab_size, 96);
  EXPECT_EQ(c.model.seq_length, 64);
  EXPECT_EQ(c.model.rope_base, 500000);
  EXPECT_EQ(value(file, "model.rope_scaling"), "\"llama3\"");
  EXPECT_EQ(value(file, "model.rope_scaling_factor"), "8.0");
  EXPECT_EQ(value(file, "model.rope_original_length"), "8192");
  EXPECT_EQ(value(file, "model.tie_embeddings"), "true");
  EXPECT_EQ(value(file, "model.bias"), "false");
  EXPECT_EQ(c.run.precision, Precision::bf16);
  EXPECT_EQ(c.parallel.zero, 3);
  EXPECT_EQ(c.train.global_batch_size, 16);
  EXPECT_EQ(c.optimizer.beta2, 0.95);
  EXPECT_TRUE(c.optimizer.decay_vectors);
  EXPECT_EQ(c.data.tokenizer_model, "./assets/hf/Small/tokenizer.json");
  EXPECT_THAT(noted(file), HasSubstr("does not say whether its linear layers are converted"));
}

// Documents are packed, but nothing crosses their borders.
TEST_F(PrintedTorchtitan, DocumentsAreApart) {
  const Config c = config(file_of(printed_llama()));
  EXPECT_TRUE(c.data.reset_attention_mask);
  EXPECT_TRUE(c.data.reset_position_ids);
  EXPECT_TRUE(c.data.eod_mask_loss);
}

TEST_F(PrintedTorchtitan, ThreeProjectionsAndQkNormsAreRead) {
  Json attention = grouped_of(32, 4, 2, 8, false, rope_of(8), norm_of(8, 1e-6));
  attention["qkv_linear"] = module_of(
      {{"head_dim", 8}, {"wq", linear_of(32, 32, true)}, {"wkv", linear_of(32, 16, true)}});
  const Json layer = layer_of(attention, mlp_of(32, 80), nullptr, 32, 1e-6);
  const SettingsFile file = file_of(printed_of(spec_of("qwen3", {layer}, 32, 1e-6)));
  EXPECT_EQ(lost(file), "");
  EXPECT_TRUE(config(file).model.qk_norm);
  EXPECT_EQ(value(file, "model.qkv_bias"), "true");
  EXPECT_EQ(value(file, "model.bias"), "false");
  EXPECT_EQ(config(file).model.norm_eps, 1e-6);
  EXPECT_EQ(value(file, "model.rope_scaling"), "\"none\"");
}

TEST_F(PrintedTorchtitan, GptOssIsRead) {
  const SettingsFile file = file_of(printed_gpt_oss());
  EXPECT_EQ(lost(file), "");
  const Config c = config(file);
  EXPECT_TRUE(c.model.attention_sinks);
  EXPECT_EQ(c.model.attention_window, 16);
  EXPECT_THAT(c.model.window_layers, ElementsAre(0, 2));
  EXPECT_EQ(c.model.activation_clamp, 6.5);
  EXPECT_EQ(c.model.gate_alpha, 1.702);
  EXPECT_EQ(c.model.gate_offset, 1);
  EXPECT_TRUE(c.model.moe.linear_bias);
  EXPECT_TRUE(c.model.moe.router_bias);
  EXPECT_EQ(c.model.moe.num_experts, 8);
  EXPECT_EQ(c.model.moe.ffn_hidden_size, 48);
  EXPECT_FALSE(c.model.moe.expert_bias);
  EXPECT_EQ(value(file, "model.rope_truncate"), "false");
  EXPECT_EQ(value(file, "model.rope_attention_factor"), "");  // YaRN's own
}

TEST_F(PrintedTorchtitan, DeepSeekIsRead) {
  for (const int rank : {0, 20}) {
    const SettingsFile file = file_of(printed_deepseek(rank));
    EXPECT_EQ(lost(file), "");
    const Config c = config(file);
    EXPECT_EQ(c.model.kv_lora_rank, 32);
    EXPECT_EQ(c.model.q_lora_rank, rank);
    EXPECT_EQ(c.model.qk_nope_head_dim, 16);
    EXPECT_EQ(c.model.qk_rope_head_dim, 8);
    EXPECT_EQ(c.model.v_head_dim, 12);
    const double growth = 0.1 * 0.7 * std::log(40) + 1;
    EXPECT_NEAR(c.model.attention_scale, growth * growth / std::sqrt(24), 1e-12);
    EXPECT_EQ(c.model.rope_attention_factor, 1);
    EXPECT_EQ(c.model.moe.first_layer, 1);
    EXPECT_EQ(value(file, "moe.score"), "\"sigmoid\"");
    EXPECT_EQ(c.model.moe.num_groups, 4);
    EXPECT_EQ(c.model.moe.top_groups, 2);
    EXPECT_EQ(c.model.moe.scaling_factor, 2.5);
    EXPECT_EQ(c.model.moe.shared_ffn_hidden_size, 24);
    EXPECT_TRUE(c.model.moe.expert_bias);
    EXPECT_EQ(c.model.moe.bias_update_rate, 0.002);
  }
}

// Their biases balance softmax routers too.
TEST_F(PrintedTorchtitan, BiasesOfSoftmaxRoutersAreRead) {
  Json json = printed_gpt_oss();
  for (Json& layer : json["model_spec"]["model"]["layers"])
    layer["moe"]["load_balance_coeff"] = 0.003;
  const SettingsFile file = file_of(json);
  EXPECT_EQ(lost(file), "");
  const Config c = config(file);
  EXPECT_EQ(c.model.moe.score, RouterScore::softmax);
  EXPECT_TRUE(c.model.moe.expert_bias);
  EXPECT_EQ(c.model.moe.bias_update_rate, 0.003);
}

TEST_F(PrintedTorchtitan, ExpertsAreSpreadOrSplit) {
  Json json = printed_deepseek(0);
  json["parallelism"]["tensor_parallel_degree"] = 2;
  EXPECT_EQ(value(file_of(json), "parallel.expert_tp"), "2");
  json["parallelism"]["expert_parallel_degree"] = 4;
  json["parallelism"]["enable_sequence_parallel"] = false;
  const SettingsFile file = file_of(json);
  EXPECT_EQ(value(file, "parallel.expert_tp"), "");
  EXPECT_EQ(config(file).parallel.ep, 4);
  EXPECT_FALSE(config(file).parallel.sequence_parallel);
}

// What this cannot train as torchtitan does, and the reason.
TEST_F(PrintedTorchtitan, OtherTrainingsAreLost) {
  const auto lost_with = [&](const char* at, const Json& value, Json json = printed_llama()) {
    json[Json::json_pointer(at)] = value;
    return lost(file_of(json));
  };
  const std::string layer = "/model_spec/model/layers/0";
  EXPECT_THAT(lost_with("/model_spec/name", "muse_glimmer"), HasSubstr("known are llama3, qwen3"));
  EXPECT_THAT(lost_with("/model_spec/model/lm_head/bias", true), HasSubstr("no bias"));
  EXPECT_THAT(lost_with("/model_spec/model/norm/elementwise_affine", false),
              HasSubstr("norms of Trireme have weights"));
  EXPECT_THAT(lost_with("/override/imports", {"my.module"}), HasSubstr("replaced by others"));
  EXPECT_THAT(lost_with("/dataloader/sample_processor", "<function f at 0x7f>"),
              HasSubstr("conversations"));
  EXPECT_THAT(lost_with("/training/dtype", "bfloat16"), HasSubstr("training.dtype"));
  EXPECT_THAT(lost_with("/optimizer/param_groups/0/optimizer_name", "DistMuon"),
              HasSubstr("'DistMuon': Adam and AdamW are carried over"));
  EXPECT_THAT(lost_with("/optimizer/param_groups/0/pattern", "norm"), HasSubstr("pattern"));
  EXPECT_THAT(lost_with("/optimizer/param_groups/0/optimizer_kwargs/amsgrad", true),
              HasSubstr("amsgrad"));
  EXPECT_THAT(lost_with("/optimizer/param_groups/0/optimizer_kwargs/momentum", 0.9),
              HasSubstr("momentum"));
  EXPECT_THAT(lost_with("/optimizer/param_groups/1", Json::object()), HasSubstr("has 2 groups"));
  const Json deepseek = printed_deepseek(0);
  EXPECT_THAT(lost_with("/model_spec/model/mtp_layers", Json::array({Json::object()}), deepseek),
              HasSubstr("states before the norm"));
  EXPECT_THAT(lost_with("/model_spec/model/layers/1/moe/routed_experts/token_dispatcher/"
                        "non_blocking_capacity_factor",
                        1.5, deepseek),
              HasSubstr("dropped"));
}

TEST_F(PrintedTorchtitan, ModelsThatContradictThemselvesAreRefused) {
  const auto refused_with = [&](const char* at, const Json& value, Json json = printed_llama()) {
    json[Json::json_pointer(at)] = value;
    return refusal_of(json);
  };
  EXPECT_THAT(refused_with("/model_spec/model/layers/0/feed_forward/w2/in_features", 81),
              HasSubstr("is 81, but the rest of the model requires 80"));
  EXPECT_THAT(refused_with("/model_spec/model/layers/1/attention_norm/eps", 1e-6),
              HasSubstr("asks for model.norm_eps"));
  EXPECT_THAT(refused_with("/model_spec/model/layers", Json::array()),
              HasSubstr("is not a list of layers"));
  EXPECT_THAT(refused_with("/model_spec/model/layers/1", nullptr),
              HasSubstr("is not a list of layers"));
  EXPECT_THAT(refused_with("/model_spec/model", nullptr), HasSubstr("is not a list of layers"));
  EXPECT_THAT(refused_with("/training/seq_len", 8192), HasSubstr("which torchtitan refuses"));
  EXPECT_THAT(refused_with("/model_spec/model/dim", nullptr), HasSubstr("is missing"));
  EXPECT_THAT(refused_with("/optimizer/param_groups", Json::array()),
              HasSubstr("is not a list of groups"));
  EXPECT_THAT(refused_with("/model_spec/model/layers/0/attention/inner_attention/window_size",
                           {7, 0}, printed_gpt_oss()),
              HasSubstr("sliding_window_size is 16"));
}

// What one layer says and another leaves out.
TEST_F(PrintedTorchtitan, LayersOfExpertsMustAgree) {
  const std::string moe = "/model_spec/model/layers/1/moe/";
  const auto refused_with = [&](const std::string& at, const Json& value, Json json) {
    json[Json::json_pointer(moe + at)] = value;
    return refusal_of(json);
  };
  EXPECT_THAT(refused_with("load_balance_coeff", 0.003, printed_gpt_oss()),
              HasSubstr("asks for moe.expert_bias"));
  EXPECT_THAT(refused_with("shared_experts", nullptr, printed_deepseek(0)),
              HasSubstr("asks for moe.shared_ffn_hidden_size"));
  EXPECT_THAT(refused_with("router/num_expert_groups", nullptr, printed_deepseek(0)),
              HasSubstr("asks for moe.num_groups"));
  Json json = printed_llama();
  json[Json::json_pointer("/optimizer/param_groups/0/optimizer_kwargs")].erase("lr");
  EXPECT_EQ(value(file_of(json), "optimizer.lr"), "0.001");  // PyTorch's default
}

// The start is another, and by how much.
TEST_F(PrintedTorchtitan, OtherInitialWeightsAreNoted) {
  Json json = printed_llama();
  EXPECT_THAT(noted(file_of(json)), HasSubstr("layers.0.attention.wo 0.02 instead of 0.008165"));
  json["model_spec"]["model"]["tok_embeddings"]["param_init"] = weights(1);
  EXPECT_THAT(noted(file_of(json)), HasSubstr("tok_embeddings 1 instead of 0.02"));
}

void visit(const Json& json, const std::string& at,
           const std::function<void(const std::string&, const Json&)>& see) {
  see(at, json);
  if (!json.is_structured()) return;
  for (const auto& [name, part] : json.items())
    if (name != "param_init" && name != "sharding_config") visit(part, at + "/" + name, see);
}

// A key of another version, in any module.
TEST_F(PrintedTorchtitan, UnknownKeysAreNamedWhereverTheyAre) {
  for (const Json& json : {printed_llama(), printed_gpt_oss(), printed_deepseek(20)}) {
    visit(json, "", [&](const std::string& at, const Json& part) {
      if (!part.is_object() || at.ends_with("kernel_options")) return;
      Json with = json;
      with[Json::json_pointer(at)]["surprise"] = 7;
      EXPECT_THAT(lost(file_of(with)), HasSubstr("surprise")) << at;
    });
  }
}

// Any other number in a model is another model, a contradiction, or has no effect and is listed.
TEST_F(PrintedTorchtitan, NoNumberOfAModelIsDropped) {
  for (const Json& json : {printed_llama(), printed_gpt_oss(), printed_deepseek(20)}) {
    const SettingsFile before = file_of(json);
    visit(json["model_spec"]["model"], "/model_spec/model", [&](const auto& at, const Json& part) {
      if (!part.is_number() && !part.is_boolean()) return;
      Json with = json;
      Json& changed = with[Json::json_pointer(at)];
      if (part.is_boolean())
        changed = !part.template get<bool>();
      else
        changed = part.template get<double>() + 1;
      if (refusal_of(with) != "read") return;
      const SettingsFile now = file_of(with);
      std::string key = at.substr(1);
      std::ranges::replace(key, '/', '.');
      const bool passed = std::ranges::any_of(now.passed, [&](const std::string& one) {
        return key == one || key.starts_with(one + ".");
      });
      EXPECT_TRUE(passed ||
                  megatron::to_toml(now.translation) != megatron::to_toml(before.translation) ||
                  lost(now) != lost(before))
          << at;
    });
  }
}

}  // namespace
}  // namespace trireme::settings
