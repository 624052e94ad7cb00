// Checks of mixture-of-experts settings: contradictions and unsupported combinations.
#include "config/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "config/divisors.h"
#include "config/families.h"

namespace trireme {
namespace {

// These keys would silently have no effect without the setting they belong to.
void check_unused(const ExpertConfig& moe) {
  const ExpertConfig none;
  const auto refuse = [](const char* key, bool set) {
    if (set)
      fail_input("moe.{} has no effect without moe.num_experts: set num_experts, or remove {}", key,
                 key);
  };
  refuse("top_k", moe.top_k != none.top_k);
  refuse("ffn_hidden_size", moe.ffn_hidden_size > 0);
  refuse("first_layer", moe.first_layer != none.first_layer);
  refuse("layer_interval", moe.layer_interval != none.layer_interval);
  refuse("layers", !moe.layers.empty());
  refuse("score", moe.score != none.score);
  refuse("router_bias", moe.router_bias);
  refuse("linear_bias", moe.linear_bias);
  refuse("scale_inputs", moe.scale_inputs);
  refuse("normalize_weights", moe.normalize_weights != none.normalize_weights);
  refuse("scaling_factor", moe.scaling_factor != none.scaling_factor);
  refuse("num_groups", moe.num_groups != none.num_groups);
  refuse("top_groups", moe.top_groups != none.top_groups);
  refuse("expert_bias", moe.expert_bias);
  refuse("bias_update_rate", moe.bias_update_rate != none.bias_update_rate);
  refuse("shared_ffn_hidden_size", moe.shared_ffn_hidden_size > 0);
  refuse("shared_gate", moe.shared_gate);
  refuse("residual", moe.residual);
  refuse("aux_loss", moe.aux_loss != none.aux_loss);
  refuse("aux_loss_coeff", moe.aux_loss_coeff > 0);
  refuse("z_loss_coeff", moe.z_loss_coeff > 0);
  refuse("capacity_factor", moe.capacity_factor > 0);
  refuse("drop_policy", moe.drop_policy != none.drop_policy);
}

void check_layers(const ModelConfig& model) {
  const ExpertConfig& moe = model.moe;
  for (std::size_t i = 0; i < moe.layers.size(); ++i) {
    const std::int64_t layer = moe.layers[i];
    if (layer >= model.num_layers) {
      fail_input(
          "moe.layers contains layer {}, but with model.num_layers = {} the layers are 0 to {}",
          layer, model.num_layers, model.num_layers - 1);
    }
    if (i > 0 && layer <= moe.layers[i - 1])
      fail_input("moe.layers must be in ascending order: {} follows {}", layer, moe.layers[i - 1]);
  }
  if (!moe.layers.empty() && (moe.first_layer != 0 || moe.layer_interval != 1)) {
    fail_input(
        "moe.layers and moe.first_layer or moe.layer_interval are mutually exclusive: keep one of "
        "them");
  }
  if (moe.first_layer >= model.num_layers) {
    fail_input(
        "moe.first_layer = {} leaves no layer with experts, because model.num_layers = {}: use at "
        "most {}",
        moe.first_layer, model.num_layers, model.num_layers - 1);
  }
}

// A number of experts and the setting it comes from: "moe.experts_by_layer[1]".
struct Count {
  std::string name;
  std::int64_t number;
};
std::vector<Count> counts_of(const ExpertConfig& moe) {
  if (moe.experts_by_layer.empty()) return {{"moe.num_experts", moe.num_experts}};
  std::vector<Count> counts;
  for (const std::int64_t number : moe.experts_by_layer)
    counts.push_back({fmt::format("moe.experts_by_layer[{}]", counts.size()), number});
  return counts;
}
Count fewest_of(const ExpertConfig& moe) {
  const std::vector<Count> counts = counts_of(moe);
  return *std::ranges::min_element(counts, {}, &Count::number);
}
Count most_of(const ExpertConfig& moe) {
  const std::vector<Count> counts = counts_of(moe);
  return *std::ranges::max_element(counts, {}, &Count::number);
}

// Refuses numbers of experts that are not divisible by the value of section.key.
void check_divides(const ExpertConfig& moe, const char* section, const char* key, std::int64_t by) {
  const std::vector<Count> counts = counts_of(moe);
  std::int64_t common = 0;
  for (const Count& count : counts) common = std::gcd(common, count.number);
  for (const Count& count : counts) {
    if (count.number % by == 0) continue;
    fail_input("{} = {} is not divisible by {}.{} = {}: {} can be {}", count.name, count.number,
               section, key, by, key, divisors_near(common, by));
  }
}

void check_numbers(const ModelConfig& model) {
  const ExpertConfig& moe = model.moe;
  if (const Count fewest = fewest_of(moe); moe.top_k > fewest.number)
    fail_input("moe.top_k = {} exceeds {} = {}: use at most that", moe.top_k, fewest.name,
               fewest.number);
  if (moe.experts_by_layer.empty()) return;
  std::int64_t layers = 0;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer)
    layers += moe.in_layer(layer) ? 1 : 0;
  if (static_cast<std::int64_t>(moe.experts_by_layer.size()) != layers) {
    fail_input(
        "moe.experts_by_layer has {}, but {} of model.num_layers = {} layers have experts "
        "(moe.layers, or moe.first_layer and moe.layer_interval): give one number per expert "
        "layer",
        counted(moe.experts_by_layer.size(), "number"), layers, model.num_layers);
  }
  if (const std::int64_t most = most_of(moe).number; moe.num_experts != most) {
    fail_input(
        "moe.num_experts = {} conflicts with moe.experts_by_layer, whose largest number is {}: "
        "remove num_experts",
        moe.num_experts, most);
  }
}

void check_groups(const ExpertConfig& moe) {
  check_divides(moe, "moe", "num_groups", moe.num_groups);
  if (moe.top_groups > moe.num_groups) {
    fail_input("moe.top_groups = {} exceeds moe.num_groups = {}: use at most that", moe.top_groups,
               moe.num_groups);
  }
  if (moe.num_groups == 1) return;
  if (moe.top_k % moe.top_groups != 0) {
    fail_input(
        "moe.top_k = {} is not divisible by moe.top_groups = {}: a group is ranked by its best "
        "top_k / top_groups scores; top_groups can be {}",
        moe.top_k, moe.top_groups, divisors_near(moe.top_k, moe.top_groups));
  }
  const std::int64_t reachable = fewest_of(moe).number / moe.num_groups * moe.top_groups;
  if (moe.top_k > reachable) {
    fail_input(
        "moe.top_k = {} exceeds the {} in moe.top_groups = {} groups: increase top_groups "
        "or decrease top_k",
        moe.top_k, counted(reachable, "expert"), moe.top_groups);
  }
}

// Experts of a layer are distributed evenly. Exact numerics sum squared gradients in blocks
// (ShardOptions::grain), whose boundaries must not depend on where a rank's experts start.
void check_ranks(const ExpertConfig& moe, const ModelConfig& model, const ParallelConfig& p) {
  constexpr std::int64_t block = 256;
  check_divides(moe, "parallel", "ep", p.ep);
  if (moe.ffn_hidden_size % p.expert_tp != 0) {
    fail_input(
        "moe.ffn_hidden_size = {} is not divisible by parallel.expert_tp = {}: expert_tp can be {}",
        moe.ffn_hidden_size, p.expert_tp, divisors_near(moe.ffn_hidden_size, p.expert_tp));
  }
  if (moe.linear_bias && p.expert_tp > 1) {
    fail_input(
        "parallel.expert_tp = {} conflicts with moe.linear_bias = true, which requires whole "
        "experts on each rank: increase parallel.ep instead",
        p.expert_tp);
  }
  if (p.ep * p.expert_tp == 1 || !p.exact()) return;
  const std::int64_t inner = moe.ffn_hidden_size / p.expert_tp;
  for (const Count& count : counts_of(moe)) {
    const std::int64_t experts = count.number / p.ep, columns = experts * model.hidden_size;
    const std::int64_t biases = (has_gate(model) ? 2 : 1) * inner + model.hidden_size;
    if (moe.linear_bias && experts * biases % block != 0) {
      fail_input(
          "parallel.numerics = {:?} with parallel.ep = {} and moe.linear_bias requires the "
          "biases on each rank to be a multiple of {} elements, but {} experts have {} each: "
          "change ep or the widths, or use numerics = \"fast\"",
          p.numerics, p.ep, block, experts, biases);
    }
    if (columns * inner % block == 0) continue;
    fail_input(
        "parallel.numerics = {:?} with parallel.ep = {} and expert_tp = {} requires the "
        "weights on each rank to be a multiple of {} elements, but {} experts of {} x {} are not: "
        "make moe.ffn_hidden_size a multiple of {}, or use numerics = \"fast\"",
        p.numerics, p.ep, p.expert_tp, block, experts, model.hidden_size, inner,
        p.expert_tp * block / std::gcd(block, columns));
  }
}

// With tp > 1 each rank must route its own rows (sequence parallelism), not shared ones.
void check_tokens(const ExpertConfig& moe, const ParallelConfig& p) {
  if (p.tp > 1 && !p.sequence_parallel) {
    fail_input(
        "parallel.tp = {} with moe.num_experts requires parallel.sequence_parallel = true, so that "
        "each rank dispatches different tokens to the experts: set it, or set tp = 1",
        p.tp);
  }
  if (p.tp > 1 && moe.shared_ffn_hidden_size % p.tp != 0) {
    fail_input("moe.shared_ffn_hidden_size = {} is not divisible by parallel.tp = {}: tp can be {}",
               moe.shared_ffn_hidden_size, p.tp, divisors_near(moe.shared_ffn_hidden_size, p.tp));
  }
  if (moe.capacity_factor > 0 && (p.cp > 1 || p.tp > 1)) {
    const bool context = p.cp > 1;
    fail_input(
        "moe.capacity_factor = {} decides which tokens to drop per sequence, but a sequence is "
        "split over parallel.{} = {} ranks: set capacity_factor = 0 (no token is dropped), or {} = "
        "1",
        moe.capacity_factor, context ? "cp" : "tp", context ? p.cp : p.tp, context ? "cp" : "tp");
  }
}

// Choice counts are summed with the gradients and stored as a parameter.
void check_counts(const Config& config) {
  const ExpertConfig& moe = config.model.moe;
  if (!moe.expert_bias && !moe.keeps_load()) return;
  const char* const key = moe.expert_bias ? "moe.expert_bias" : "moe.aux_loss = \"global\"";
  if (config.run.gradient_dtype != StateType::fp32) {
    fail_input(
        "{} sums its token counts together with the gradients, and run.gradient_dtype = {:?} would "
        "round them: use fp32",
        key, config.run.gradient_dtype);
  }
}

}  // namespace

void check_experts(const ModelConfig& model) {
  const ExpertConfig& moe = model.moe;
  if (moe.num_experts == 0) return check_unused(moe);
  if (family_of(model).architecture != Architecture::decoder) {
    fail_input("moe.num_experts conflicts with model.family = {:?}: use gpt or llama",
               model.family);
  }
  if (moe.shared_gate && moe.shared_ffn_hidden_size == 0) {
    fail_input(
        "moe.shared_gate has no effect without a shared expert: set moe.shared_ffn_hidden_size");
  }
  if (moe.residual && (moe.shared_ffn_hidden_size == 0 || moe.shared_gate)) {
    fail_input(
        "moe.residual mixes the output of the experts with that of a shared expert: set "
        "moe.shared_ffn_hidden_size, and remove moe.shared_gate");
  }
  if (moe.capacity_factor > 0 && moe.capacity_factor < 1) {
    fail_input(
        "moe.capacity_factor = {} is below 1, so experts would drop tokens even with a balanced "
        "load: use at least 1, or 0 to drop no token",
        moe.capacity_factor);
  }
  check_layers(model);
  check_numbers(model);
  check_groups(moe);
}

void check_experts(const Config& config) {
  const ParallelConfig& p = config.parallel;
  if (config.model.moe.num_experts == 0) {
    for (const auto& [key, degree] : {std::pair{"ep", p.ep}, {"expert_tp", p.expert_tp}}) {
      if (degree == 1) continue;
      fail_input(
          "parallel.{0} = {1} has no effect without moe.num_experts: set num_experts, or remove "
          "{0}",
          key, degree);
    }
    return;
  }
  if (p.expert_tp > 1 && config.optimizer.name == OptimizerKind::muon) {
    fail_input(
        "parallel.expert_tp = {} conflicts with optimizer.name = \"muon\", which requires whole "
        "matrices of each expert on one rank: increase parallel.ep instead",
        p.expert_tp);
  }
  check_tokens(config.model.moe, p);
  check_ranks(config.model.moe, config.model, p);
  check_counts(config);
}

}  // namespace trireme
