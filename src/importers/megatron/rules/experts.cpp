// Translates MoE flags of Megatron-LM and, with --deepspeed, of Megatron-DeepSpeed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/counted.h"
#include "importers/megatron/draft.h"
#include "importers/megatron/pattern.h"

namespace trireme::megatron {
namespace {

void set_if_given(Draft& draft, const char* key, const char* flag) {
  if (draft.has(flag)) draft.set(key, draft.value(flag), flag);
}

void layers(Draft& draft) {
  const std::string flag = "--moe-layer-freq", text = draft.value(flag);
  if (text.empty()) return;
  const auto pattern = read_pattern(text);
  if (pattern && pattern->is_number) return draft.set("moe.layer_interval", text, flag);
  if (!pattern) {
    return draft.complaints().add(
        flag, fmt::format("{:?} is not a number or a list such as \"([0]*3+[1]*58)\"", text));
  }
  std::vector<std::size_t> sparse;
  for (std::size_t layer = 0; layer < pattern->values.size(); ++layer)
    if (pattern->values[layer] != 0) sparse.push_back(layer);
  if (sparse.empty()) return draft.complaints().add(flag, "it leaves no layer with experts");
  const auto layers = static_cast<std::int64_t>(pattern->values.size());
  if (const std::int64_t all = draft.integer("--num-layers", layers); layers != all) {
    return draft.complaints().add(
        flag, fmt::format("the list has {}, but --num-layers is {}: give one for each layer",
                          counted(layers, "entry"), all));
  }
  draft.set("moe.layers", fmt::format("[{}]", fmt::join(sparse, ", ")), flag);
}

// Megatron needs both numbers for group-limited routing; the number of groups alone has no effect.
void groups(Draft& draft, bool softmax_of_chosen) {
  const std::string number = "--moe-router-num-groups", used = "--moe-router-group-topk";
  if (!draft.has(used)) {
    if (draft.has(number)) draft.note(number, "no effect without " + used + ", as in Megatron");
    return;
  }
  if (!draft.has(number)) return draft.complaints().add(used, "needs " + number);
  const std::int64_t top_groups = draft.integer(used, 1);
  if (top_groups == draft.integer(number, 1))
    return draft.note(used, "all groups may be used, so routing is not limited");
  if (softmax_of_chosen && top_groups > 0 &&
      draft.integer("--moe-router-topk", 2) / top_groups > 1) {
    return draft.complaints().add(
        used,
        "with several experts per group, Megatron compares groups by sums of logits, and Trireme "
        "by sums of scores: add --moe-router-pre-softmax, or --moe-router-score-function sigmoid");
  }
  draft.set("moe.num_groups", draft.value(number), number);
  draft.set("moe.top_groups", draft.value(used), used);
}

void expert_bias(Draft& draft, bool softmax) {
  const std::string flag = "--moe-router-enable-expert-bias";
  if (!draft.has(flag)) return;
  if (softmax) {
    draft.complaints().add(flag, "requires --moe-router-score-function sigmoid, as in Megatron");
  }
  draft.set("moe.expert_bias", "true", flag);
}

void router(Draft& draft) {
  const std::string score = draft.value("--moe-router-score-function");
  const std::string before = "--moe-router-pre-softmax";
  const bool softmax = score != "sigmoid", of_chosen = softmax && !draft.has(before);
  if (!score.empty()) draft.set_text("moe.score", score, "--moe-router-score-function");
  if (draft.has(before) && softmax) draft.set("moe.normalize_weights", "false", before);
  if (draft.has(before) && !softmax)
    draft.note(before, "no effect with --moe-router-score-function sigmoid, as in Megatron");
  if (of_chosen && draft.integer("--moe-router-topk", 2) == 1) {
    draft.complaints().add("--moe-router-topk",
                           "the softmax over one expert is always 1: add --moe-router-pre-softmax, "
                           "which Megatron also requires");
  }
  set_if_given(draft, "moe.scaling_factor", "--moe-router-topk-scaling-factor");
  groups(draft, of_chosen);
  expert_bias(draft, softmax);
  set_if_given(draft, "moe.bias_update_rate", "--moe-router-bias-update-rate");
}

void balance(Draft& draft) {
  const std::string flag = "--moe-router-load-balancing-type";
  const std::string coeff = "--moe-aux-loss-coeff";
  const std::string type = draft.has(flag) ? draft.value(flag) : "aux_loss";
  set_if_given(draft, "moe.z_loss_coeff", "--moe-z-loss-coeff");
  for (const std::string& list : {flag, coeff}) {
    if (draft.has(list) && draft.line().flags.at(list).size() > 1)
      return draft.complaints().add(
          list, "only one load-balancing loss with one coefficient is supported");
  }
  if (type != "none" && type != "aux_loss" && type != "seq_aux_loss" && type != "global_aux_loss") {
    return draft.complaints().add(
        flag,
        fmt::format("'{}' is not one of aux_loss, seq_aux_loss, global_aux_loss, none", type));
  }
  if (type == "none") {
    draft.set("moe.aux_loss_coeff", "0.0", flag);
    return;
  }
  draft.set_text("moe.aux_loss",
                 type == "seq_aux_loss"      ? "sequence"
                 : type == "global_aux_loss" ? "global"
                                             : "batch",
                 draft.has(flag) ? flag : kDefault);
  if (type == "global_aux_loss") {
    draft.ask(flag,
              "Trireme uses the expert load of the whole previous step, and Megatron that of the "
              "micro-batches so far",
              "moe.aux_loss");
  }
  set_if_given(draft, "moe.aux_loss_coeff", "--moe-aux-loss-coeff");
}

void capacity(Draft& draft) {
  const std::string flag = "--moe-expert-capacity-factor";
  if (!draft.has(flag)) return;
  if (draft.number(flag, 0) < 0)
    return draft.note(flag, "negative: no token is dropped, as in Megatron");
  draft.set("moe.capacity_factor", draft.value(flag), flag);
  if (const std::int64_t batch = draft.integer("--micro-batch-size", 1); batch > 1) {
    draft.ask(
        flag,
        fmt::format("Trireme applies the capacity to each sequence, and Megatron to a micro-batch, "
                    "which has {} of them",
                    batch),
        "moe.capacity_factor");
  }
  const std::string policy = draft.value("--moe-token-drop-policy");
  draft.set_text("moe.drop_policy", policy == "position" ? "position" : "weight",
                 policy.empty() ? kDefault : "--moe-token-drop-policy");
}

// Megatron-LM splits experts like other layers by default. Muon and fp8 scales require whole
// experts here.
void slices(Draft& draft) {
  const std::string flag = "--expert-tensor-parallel-size", tensor = "--tensor-model-parallel-size";
  const std::int64_t size = draft.integer(flag, draft.integer(tensor, 1));
  if (size == 1) return;
  const bool muon = draft.value("--optimizer").find("muon") != std::string::npos;
  if (!draft.has(flag) && (muon || draft.has("--fp8-format"))) {
    return draft.note(muon ? "--optimizer" : "--fp8-format",
                      "experts are not split: parallel.expert_tp is 1, whereas Megatron-LM splits "
                      "experts by --tensor-model-parallel-size");
  }
  draft.set("parallel.expert_tp", fmt::format("{}", size), draft.has(flag) ? flag : tensor);
}

// Experts and their router have biases if other layers do.
void expert_biases(Draft& draft) {
  if (draft.has("--disable-bias-linear")) return;
  for (const char* flag :
       {"--moe-shared-expert-intermediate-size", "--expert-tensor-parallel-size"}) {
    const bool refuses = draft.has(flag) && draft.value(flag) != "1";
    if (!refuses) continue;
    return draft.complaints().add(
        flag, "requires experts without biases, as in Megatron: add --disable-bias-linear");
  }
  draft.set("moe.linear_bias", "true", kDefault);
  draft.set("moe.router_bias", "true", kDefault);
  draft.note("--num-experts",
             "the router's bias is initialized to 0, and in Megatron like other weights");
}

void translate_megatron(Draft& draft) {
  expert_biases(draft);
  set_if_given(draft, "moe.top_k", "--moe-router-topk");
  set_if_given(draft, "moe.ffn_hidden_size", "--moe-ffn-hidden-size");
  set_if_given(draft, "moe.shared_ffn_hidden_size", "--moe-shared-expert-intermediate-size");
  if (draft.has("--moe-shared-expert-gate"))
    draft.set("moe.shared_gate", "true", "--moe-shared-expert-gate");
  slices(draft);
  layers(draft);
  router(draft);
  balance(draft);
  capacity(draft);
}

// The residual branch of an MoE layer is an MLP of the size of an expert.
void residual(Draft& draft) {
  const std::string flag = "--mlp-type";
  if (draft.value(flag) != "residual") return;
  draft.set("moe.residual", "true", flag);
  const std::int64_t hidden = std::min<std::int64_t>(draft.integer("--hidden-size", 0), 1 << 30);
  const std::int64_t inner = draft.integer("--ffn-hidden-size", 4 * hidden);
  draft.set("moe.shared_ffn_hidden_size", fmt::format("{}", inner), flag);
}

// Megatron-DeepSpeed accepts one number per MoE layer, or one for all. Returns whether there are
// experts.
bool numbers_of_experts(Draft& draft) {
  const std::string flag = "--num-experts";
  if (!draft.has(flag)) return false;
  const std::vector<std::string>& numbers = draft.line().flags.at(flag);
  if (std::ranges::adjacent_find(numbers, std::ranges::not_equal_to()) == numbers.end()) {
    if (draft.integer(flag, 1) <= 1) return false;
    draft.set("moe.num_experts", numbers.back(), flag);
    return true;
  }
  if (std::ranges::find(numbers, "1") != numbers.end()) {
    draft.complaints().add(
        flag, fmt::format("a layer with one expert is dense in Megatron-DeepSpeed but has a "
                          "router in Trireme, and {} are given: remove such layers from the "
                          "list and name the others in moe.layers",
                          fmt::join(numbers, " ")));
  }
  draft.set("moe.experts_by_layer", fmt::format("[{}]", fmt::join(numbers, ", ")), flag);
  return true;
}

// Megatron-DeepSpeed's minimum of tokens per expert, regardless of the capacity factor.
void least_capacity(Draft& draft, std::int64_t top_k) {
  const std::string flag = "--moe-min-capacity";
  const double least = draft.number(flag, 4);
  const std::vector<std::string>& numbers = draft.line().flags.at("--num-experts");
  double experts = 1;
  for (const std::string& number : numbers) experts = std::max(experts, std::atof(number.c_str()));
  const double tokens = draft.number("--micro-batch-size", 1) * draft.number("--seq-length", 0);
  const double even = tokens * static_cast<double>(top_k) / experts;
  const double taken = std::ceil(even * draft.number("--moe-train-capacity-factor", 1));
  if (taken >= least) return;
  draft.complaints().add(
      flag,
      fmt::format(
          "{} exceeds the {} tokens per micro-batch of an expert with this capacity factor, and "
          "Trireme has no such minimum: increase --moe-train-capacity-factor, or add "
          "--disable-moe-token-dropping",
          least, taken));
}

// Megatron-DeepSpeed counts layers from 1. Its balance loss uses only the first of two choices, and
// it drops random tokens of a full expert.
void translate_deepspeed(Draft& draft) {
  const std::int64_t top_k = draft.integer("--topk", 1);
  const std::int64_t interval = draft.integer("--expert-interval", 2);
  const std::string origin = "Megatron-DeepSpeed's default";
  const auto from = [&](const char* flag) { return draft.has(flag) ? flag : origin; };
  draft.set("moe.top_k", fmt::format("{}", top_k), from("--topk"));
  draft.set("moe.first_layer", fmt::format("{}", interval - 1), from("--expert-interval"));
  draft.set("moe.layer_interval", fmt::format("{}", interval), from("--expert-interval"));
  draft.set("moe.normalize_weights", top_k > 1 ? "true" : "false", "DeepSpeed's gate");
  draft.set_text("moe.aux_loss", "batch", "DeepSpeed's gate");
  draft.set("moe.aux_loss_coeff",
            draft.has("--moe-loss-coeff") ? draft.value("--moe-loss-coeff") : "0.1",
            from("--moe-loss-coeff"));
  if (top_k > 1)
    draft.ask("--topk",
              "in Trireme the load-balancing loss counts all experts of a token, not only the "
              "first, the second expert is not sampled at random, and dropping a token does not "
              "increase the weights of its other experts",
              "moe.top_k");
  if (!draft.has("--disable-bias-linear")) {
    draft.ask("--num-experts",
              "in Trireme experts have no biases, and in Megatron-DeepSpeed they have one in the "
              "first of their two layers: add --disable-bias-linear, which removes the biases of "
              "all layers, or keep those of the other layers",
              "model.bias");
  }
  residual(draft);
  const std::string cut = "--enable-expert-tensor-parallelism";
  if (const std::int64_t tp = draft.integer("--tensor-model-parallel-size", 1);
      draft.has(cut) && tp > 1)
    draft.set("parallel.expert_tp", fmt::format("{}", tp), cut);
  if (draft.has("--disable-moe-token-dropping")) {
    const std::string factor = "--moe-train-capacity-factor";
    if (draft.has(factor)) draft.note(factor, "no effect with --disable-moe-token-dropping");
    return;
  }
  draft.set(
      "moe.capacity_factor",
      draft.has("--moe-train-capacity-factor") ? draft.value("--moe-train-capacity-factor") : "1.0",
      from("--moe-train-capacity-factor"));
  draft.ask("--num-experts",
            "Trireme applies the capacity of an expert to each sequence, keeps the tokens with the "
            "largest weights, and never drops tokens in evaluation; Megatron-DeepSpeed applies it "
            "to a micro-batch and keeps tokens at random: add --disable-moe-token-dropping to drop "
            "none in either",
            "moe.capacity_factor");
  least_capacity(draft, top_k);
}

// Notes flags of the other program, which would not accept them.
void note_others(Draft& draft, bool deepspeed) {
  static constexpr std::string_view deepspeeds[] = {"--num-experts",
                                                    "--topk",
                                                    "--expert-interval",
                                                    "--moe-loss-coeff",
                                                    "--mlp-type",
                                                    "--moe-train-capacity-factor",
                                                    "--disable-moe-token-dropping",
                                                    "--enable-expert-tensor-parallelism"};
  for (const std::string_view name : std::span(deepspeeds).subspan(1)) {
    const std::string flag(name);
    if (!deepspeed && draft.has(flag)) draft.note(flag, "has an effect only with --deepspeed");
  }
  for (const Flag& other : all_flags()) {
    const bool of_experts = other.keys.starts_with("moe.") || other.keys == "parallel.expert_tp";
    const bool shared = std::ranges::find(deepspeeds, other.name) != std::end(deepspeeds);
    if (deepspeed && of_experts && !shared && draft.has(other.name))
      draft.note(other.name, "has no effect with --deepspeed");
  }
}

}  // namespace

void translate_experts(Draft& draft) {
  const std::string flag = "--num-experts";
  if (!numbers_of_experts(draft)) {
    for (const Flag& other : all_flags()) {
      const bool of_experts = other.keys.starts_with("moe.") || other.keys == "parallel.expert_tp";
      if (of_experts && other.name != flag && draft.has(other.name))
        draft.note(other.name, "has an effect only with --num-experts above 1");
    }
    return;
  }
  note_others(draft, draft.has("--deepspeed"));
  if (draft.has("--deepspeed")) {
    translate_deepspeed(draft);
  } else {
    translate_megatron(draft);
  }
}

}  // namespace trireme::megatron
