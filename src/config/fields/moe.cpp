// The keys of [moe].
#include "config/fields/row.h"

namespace trireme {

std::vector<Field> moe_fields() {
  return {
      EXPERT_FIELD(num_experts, between(0, kManyExperts), "experts",
                   "number in each expert layer, whose MLP they replace; 0: every layer is dense"),
      EXPERT_FIELD(experts_by_layer, between(1, kManyExperts), "experts",
                   "a number for each of the expert layers instead, as [64, 64, 128] (pyramids of "
                   "experts)"),
      EXPERT_FIELD(top_k, between(1, kManyExperts), "experts",
                   "number that the router picks for a token")
          .of_weights()
          .also("num_experts_per_tok top_k"),
      EXPERT_FIELD(ffn_hidden_size, between(0, kWide), "",
                   "inner width of an expert; 0: model.ffn_hidden_size")
          .also("moe_intermediate_size"),
      EXPERT_FIELD(first_layer, between(0, kManyLayers), "",
                   "first layer with experts, counted from 0"),
      EXPERT_FIELD(layer_interval, between(1, kManyLayers), "layers",
                   "from one layer with experts to the next"),
      EXPERT_FIELD(layers, between(0, kManyLayers), "",
                   "the layers with experts, counted from 0, instead of the two keys above; []: "
                   "those"),
      EXPERT_FIELD(score, any(), "", "how the router's logits become scores").of_weights(),
      EXPERT_FIELD(router_bias, any(), "", "a learned bias of the router's logits (gpt-oss)"),
      EXPERT_FIELD(linear_bias, any(), "",
                   "biases of the experts' linear layers (gpt-oss); model.bias is of all others"),
      EXPERT_FIELD(normalize_weights, any(), "",
                   "the weights of a token's experts add up to 1 (softmax: as if taken over the "
                   "chosen ones alone; with sigmoid a single one remains its score); false: they "
                   "are the scores")
          .of_weights(),
      EXPERT_FIELD(scaling_factor, between(1e-6, 1e6), "", "multiplies the weights of the experts")
          .of_weights(),
      EXPERT_FIELD(num_groups, between(1, kManyExperts), "groups",
                   "equal groups of neighboring experts, of which a token uses some")
          .of_weights(),
      EXPERT_FIELD(top_groups, between(1, kManyExperts), "groups",
                   "number that a token may use, those whose best moe.top_k / top_groups scores "
                   "have the largest sums; 1 with one group: no limit")
          .of_weights(),
      EXPERT_FIELD(expert_bias, any(), "",
                   "sigmoid: a bias on the scores that choose, not on the weights; each step moves "
                   "it towards an even load"),
      EXPERT_FIELD(bias_update_rate, between(0, 1), "", "what a step adds to or takes from a bias"),
      EXPERT_FIELD(shared_ffn_hidden_size, between(0, kWide), "",
                   "inner width of an MLP that all tokens pass next to their experts; 0: none"),
      EXPERT_FIELD(shared_gate, any(), "",
                   "the shared expert is multiplied by the sigmoid of a number for each token"),
      EXPERT_FIELD(residual, any(), "",
                   "the shared expert and the sum of the others are mixed by two shares that each "
                   "token learns, instead of added (DeepSpeed's residual experts)")
          .of_weights(),
      EXPERT_FIELD(aux_loss, any(), "",
                   "what the balance of the experts is measured over: each sequence, each "
                   "micro-batch, which the layout changes, or the whole batch, by the choices of "
                   "the step before"),
      EXPERT_FIELD(aux_loss_coeff, between(0, 1e6), "",
                   "weight of the balance loss of a layer, which is this at perfect balance; 0: "
                   "off"),
      EXPERT_FIELD(z_loss_coeff, between(0, 1e6), "",
                   "weight of the squared log-sum-exp of the router's logits; 0: off"),
      EXPERT_FIELD(capacity_factor, between(0, 1e6), "",
                   "most tokens of a sequence that an expert takes in training, in shares of an "
                   "even load; 0: all, none is dropped"),
      EXPERT_FIELD(drop_policy, any(), "",
                   "whom a full expert keeps: tokens with the largest weights, or the earliest"),
  };
}

}  // namespace trireme
