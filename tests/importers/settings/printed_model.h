// Configurations as torchtitan prints them since February 2026, of small models.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trireme::settings {

using Json = nlohmann::json;

inline Json weights(double deviation) {
  return {{"weight",
           "functools.partial(<function normal_ at 0x7f>, std=" + std::to_string(deviation) + ")"}};
}

inline Json linear_of(int in, int out, bool bias = false, double deviation = 0.02) {
  return {{"param_init", weights(deviation)},
          {"sharding_config", nullptr},
          {"in_features", in},
          {"out_features", out},
          {"bias", bias}};
}

inline Json norm_of(int width, double eps = 1e-5) {
  return {{"param_init", nullptr},
          {"sharding_config", nullptr},
          {"normalized_shape", width},
          {"eps", eps},
          {"elementwise_affine", true}};
}

inline Json rope_of(int dim, const std::string& scaling = "none", double factor = 1) {
  return {{"param_init", nullptr},
          {"sharding_config", nullptr},
          {"dim", dim},
          {"max_seq_len", 4096},
          {"theta", 500000},
          {"scaling", scaling},
          {"scaling_factor", 8.0},
          {"low_freq_factor", 1.0},
          {"high_freq_factor", 4.0},
          {"original_max_position_embeddings", 8192},
          {"rope_factor", factor},
          {"beta_fast", 32.0},
          {"beta_slow", 1.0},
          {"original_seq_len", 1024},
          {"truncate", false}};
}

inline Json module_of(Json arguments) {
  arguments["param_init"] = nullptr;
  arguments["sharding_config"] = nullptr;
  return arguments;
}

inline Json flex_of() {
  return module_of({{"block_size", 128}, {"kernel_options", Json::object()}});
}

// Grouped queries in one projection.
inline Json grouped_of(int dim, int heads, int keys, int width, bool bias, const Json& rope,
                       const Json& qk_norm) {
  const Json qkv = module_of({{"head_dim", width},
                              {"n_heads", heads},
                              {"n_kv_heads", keys},
                              {"wqkv", linear_of(dim, (heads + 2 * keys) * width, bias)}});
  return module_of({{"n_heads", heads},
                    {"n_kv_heads", keys},
                    {"head_dim", width},
                    {"dim", dim},
                    {"qkv_linear", qkv},
                    {"wo", linear_of(heads * width, dim, bias)},
                    {"qk_norm", qk_norm},
                    {"inner_attention", flex_of()},
                    {"rope", rope}});
}

inline Json latent_of(int dim, int heads, int rank, const Json& rope) {
  Json attention = module_of({{"n_heads", heads},
                              {"dim", dim},
                              {"wq", rank == 0 ? linear_of(dim, heads * 24) : Json()},
                              {"wq_a", rank == 0 ? Json() : linear_of(dim, rank)},
                              {"wq_b", rank == 0 ? Json() : linear_of(rank, heads * 24)},
                              {"q_norm", norm_of(rank == 0 ? 1 : rank)},
                              {"q_lora_rank", rank},
                              {"kv_lora_rank", 32},
                              {"qk_nope_head_dim", 16},
                              {"qk_rope_head_dim", 8},
                              {"v_head_dim", 12},
                              {"mscale", 0.7},
                              {"wkv_a", linear_of(dim, 40)},
                              {"kv_norm", norm_of(32)},
                              {"wkv_b", linear_of(32, heads * 28)},
                              {"wo", linear_of(heads * 12, dim)},
                              {"inner_attention", flex_of()}});
  attention["rope"] = rope;
  return attention;
}

inline Json mlp_of(int dim, int inner) {
  return module_of({{"w1", linear_of(dim, inner)},
                    {"w2", linear_of(inner, dim)},
                    {"w3", linear_of(dim, inner)}});
}

inline Json experts_of(int dim, int inner, int experts, int top_k, const std::string& score,
                       const Json& rate) {
  const Json router = module_of({{"num_experts", experts},
                                 {"gate", linear_of(dim, experts)},
                                 {"num_expert_groups", nullptr},
                                 {"num_limited_groups", nullptr},
                                 {"top_k", top_k},
                                 {"score_func", score},
                                 {"route_norm", true},
                                 {"route_scale", 1.0}});
  const Json inner_experts =
      module_of({{"dim", dim}, {"hidden_dim", inner}, {"num_experts", experts}});
  const Json routed =
      module_of({{"inner_experts", inner_experts},
                 {"token_dispatcher", {{"num_experts", experts}, {"top_k", top_k}}}});
  return module_of({{"num_experts", experts},
                    {"router", router},
                    {"routed_experts", routed},
                    {"load_balance_coeff", rate},
                    {"shared_experts", nullptr}});
}

inline Json layer_of(const Json& attention, const Json& mlp, const Json& moe, int dim,
                     double eps = 1e-5) {
  return module_of({{"attention", attention},
                    {"feed_forward", mlp},
                    {"moe", moe},
                    {"attention_norm", norm_of(dim, eps)},
                    {"ffn_norm", norm_of(dim, eps)}});
}

inline Json spec_of(const std::string& name, const std::vector<Json>& layers, int dim,
                    double eps = 1e-5) {
  const Json embedding = module_of({{"num_embeddings", 96}, {"embedding_dim", dim}});
  const Json model = module_of({{"dim", dim},
                                {"vocab_size", 96},
                                {"tok_embeddings", embedding},
                                {"norm", norm_of(dim, eps)},
                                {"lm_head", linear_of(dim, 96)},
                                {"layers", layers},
                                {"enable_weight_tying", false}});
  return {{"name", name}, {"flavor", "small"}, {"model", model}};
}

// Sections that no model decides.
inline Json printed_of(const Json& spec) {
  const Json kwargs = {{"lr", 0.001}, {"betas", {0.9, 0.95}}, {"eps", 1e-8}, {"weight_decay", 0.1}};
  const Json group = {{"pattern", ".*"}, {"optimizer_name", "AdamW"}, {"optimizer_kwargs", kwargs}};
  return {{"model_spec", spec},
          {"hf_assets_path", "./assets/hf/Small"},
          {"dump_folder", "./outputs"},
          {"tokenizer", Json::object()},
          {"dataloader", {{"dataset", "c4"}, {"dataset_path", nullptr}, {"infinite", true}}},
          {"optimizer", {{"param_groups", {group}}, {"implementation", "fused"}}},
          {"lr_scheduler", {{"warmup_steps", 4}, {"total_steps", nullptr}}},
          {"training",
           {{"local_batch_size", 2}, {"global_batch_size", -1}, {"seq_len", 64}, {"steps", 20}}},
          {"parallelism", {{"data_parallel_shard_degree", -1}}},
          {"checkpoint", {{"enable", false}}},
          {"activation_checkpoint", {{"preserve_rng_state", true}}},
          {"override", {{"imports", Json::array()}}},
          {"loss", {{"num_chunks", 8}, {"loss_fn", {{"global_vocab_size", 96}}}}}};
}

inline Json printed_llama() {
  const Json attention = grouped_of(32, 4, 2, 8, false, rope_of(8, "llama"), nullptr);
  const Json layer = layer_of(attention, mlp_of(32, 80), nullptr, 32);
  return printed_of(spec_of("llama3", {layer, layer, layer}, 32));
}

inline Json printed_gpt_oss() {
  Json attention = grouped_of(32, 4, 2, 8, true, rope_of(8, "yarn", 32), nullptr);
  Json moe = experts_of(32, 48, 8, 2, "softmax", nullptr);
  moe["router"]["gate"]["bias"] = true;
  moe["routed_experts"]["inner_experts"]["swiglu_limit"] = 6.5;
  attention.erase("qk_norm");
  attention["sliding_window_size"] = nullptr;
  const Json whole = layer_of(attention, nullptr, moe, 32);
  attention["sliding_window_size"] = 16;
  attention["inner_attention"] = module_of({{"window_size", {15, 0}}});
  const Json window = layer_of(attention, nullptr, moe, 32);
  return printed_of(spec_of("gpt_oss", {window, whole, window, whole}, 32));
}

// Latent attention, and experts after the first layer.
inline Json printed_deepseek(int rank) {
  const Json attention = latent_of(32, 4, rank, rope_of(8, "yarn", 40));
  Json moe = experts_of(32, 24, 8, 4, "sigmoid", 0.002);
  moe["router"]["num_expert_groups"] = 4;
  moe["router"]["num_limited_groups"] = 2;
  moe["router"]["route_scale"] = 2.5;
  moe["shared_experts"] = mlp_of(32, 24);
  const Json dense = layer_of(attention, mlp_of(32, 80), nullptr, 32);
  const Json sparse = layer_of(attention, nullptr, moe, 32);
  Json printed = printed_of(spec_of("deepseek_v3", {dense, sparse, sparse}, 32));
  printed["model_spec"]["model"]["mtp_layers"] = Json::array();
  return printed;
}

}  // namespace trireme::settings
