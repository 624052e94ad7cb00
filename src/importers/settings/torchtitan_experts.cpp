// MLPs and experts of a model that torchtitan printed.
#include <fmt/format.h>

#include "config/fields.h"
#include "importers/settings/torchtitan_modules.h"

namespace trireme::settings {
namespace {

// Grouped routing ranks a group by its two best scores.
void read_groups(Reader& reader, const std::string& key, std::int64_t top_k) {
  const std::string all = key + ".num_expert_groups", used = key + ".num_limited_groups";
  const auto groups = reader.count(all), limit = reader.count(used);
  if (groups && !limit) reader.refuse(used, fmt::format("is missing, but {} is {}", all, *groups));
  if (!groups || *limit == *groups) {
    reader.pass(used);
    return reader.set("moe.num_groups", std::int64_t{1}, all);
  }
  if (*limit < 1 || top_k != 2 * *limit)
    return reader.lose(used,
                       fmt::format("is {}: torchtitan ranks a group by its 2 best scores, and "
                                   "Trireme by its best top_k / groups, with top_k = {}",
                                   *limit, top_k));
  reader.set("moe.num_groups", *groups, all);
  reader.set("moe.top_groups", *limit, used);
}

void read_weights(Reader& reader, const std::string& key, std::int64_t top_k) {
  const std::string score = reader.text(key + ".score_func").value_or("sigmoid");
  if (score != "softmax" && score != "sigmoid")
    reader.refuse(key + ".score_func", fmt::format("is '{}', not softmax or sigmoid", score));
  const bool normal = reader.flag(key + ".route_norm").value_or(false);
  if (normal && top_k == 1 && score == "sigmoid")
    reader.lose(
        key + ".route_norm",
        "is true with top_k = 1: the weight of a single expert is then 1 in torchtitan, and "
        "its score in Trireme");
  reader.set_text("moe.score", score, key + ".score_func");
  reader.set("moe.normalize_weights", normal, key + ".route_norm");
  reader.set("moe.scaling_factor", reader.number(key + ".route_scale").value_or(1),
             key + ".route_scale");
}

std::int64_t read_router(Reader& reader, const std::string& key, std::int64_t dim,
                         std::int64_t experts) {
  read_module(reader, key);
  expect_size(reader, key + ".num_experts", experts);
  reader.set("moe.router_bias", read_linear(reader, key + ".gate", dim, experts),
             key + ".gate.bias");
  const std::int64_t top_k = module_size(reader, key + ".top_k");
  reader.set("moe.top_k", top_k, key + ".top_k");
  read_weights(reader, key, top_k);
  read_groups(reader, key, top_k);
  return top_k;
}

// The ways of exchanging tokens differ in speed only, unless one may drop some.
void read_dispatcher(Reader& reader, const std::string& key, std::int64_t experts,
                     std::int64_t top_k) {
  expect_size(reader, key + ".num_experts", experts);
  expect_size(reader, key + ".top_k", top_k);
  const Passed keys[] = {
      {"cudagraphable"},
      {"device"},
      {"dtype"},
      {"hidden_dim"},
      {"non_blocking_capacity_factor", "", "tokens beyond this capacity of a rank are dropped"},
      {"num_max_tokens_per_rank"},
      {"pad_multiple"}};
  reader.pass(key + ".", keys);
}

void read_gpt_oss_gate(Reader& reader, const std::string& key) {
  reader.set("model.activation_clamp", reader.number(key).value_or(7), key);
  reader.set("model.gate_alpha", 1.702, "gpt-oss");
  reader.set("model.gate_offset", 1.0, "gpt-oss");
}

void read_routed(Reader& reader, const std::string& key, std::int64_t dim, std::int64_t experts,
                 std::int64_t top_k) {
  read_module(reader, key);
  const std::string inner = key + ".inner_experts";
  read_module(reader, inner);
  expect_size(reader, inner + ".dim", dim);
  expect_size(reader, inner + ".num_experts", experts);
  reader.set("moe.ffn_hidden_size", module_size(reader, inner + ".hidden_dim"),
             inner + ".hidden_dim");
  reader.set("moe.linear_bias", is_gpt_oss(reader), "model_spec.name");
  if (is_gpt_oss(reader)) read_gpt_oss_gate(reader, inner + ".swiglu_limit");
  read_dispatcher(reader, key + ".token_dispatcher", experts, top_k);
}

// Subtracting the mean of all updates, as torchtitan does, shifts all biases alike.
void read_balance(Reader& reader, const std::string& key) {
  const auto rate = reader.number(key);
  reader.set("moe.expert_bias", rate.has_value(), key);
  if (rate) reader.set("moe.bias_update_rate", *rate, key);
}

}  // namespace

void read_torchtitan_mlp(Reader& reader, const std::string& key, std::int64_t dim,
                         const char* setting) {
  read_module(reader, key);
  const std::int64_t inner = module_size(reader, key + ".w1.out_features");
  reader.set(setting, inner, key + ".w1.out_features");
  const bool gate = read_linear(reader, key + ".w1", dim, inner);
  const bool up = read_linear(reader, key + ".w3", dim, inner);
  const bool down = read_linear(reader, key + ".w2", inner, dim);
  if (gate != up || gate != down) reader.refuse(key, "has biases in some of w1, w2 and w3");
  reader.set("model.bias", gate, key + ".w1.bias");
}

void read_torchtitan_experts(Reader& reader, const std::string& key, std::int64_t dim) {
  read_module(reader, key);
  const std::int64_t experts = module_size(reader, key + ".num_experts");
  reader.set("moe.num_experts", experts, key + ".num_experts");
  const std::int64_t top_k = read_router(reader, key + ".router", dim, experts);
  read_routed(reader, key + ".routed_experts", dim, experts, top_k);
  read_balance(reader, key + ".load_balance_coeff");
  if (has_module(reader, key + ".shared_experts"))
    read_torchtitan_mlp(reader, key + ".shared_experts", dim, "moe.shared_ffn_hidden_size");
  else
    reader.set("moe.shared_ffn_hidden_size", std::int64_t{0}, key + ".shared_experts");
}

}  // namespace trireme::settings
