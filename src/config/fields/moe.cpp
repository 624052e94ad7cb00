// The keys of [moe].
#include "config/fields/row.h"

namespace trireme {

std::vector<Field> moe_fields() {
  return {
      EXPERT_FIELD(num_experts, between(0, kManyExperts), "experts",
                   "number of experts in each expert layer, where they replace the MLP; 0: every "
                   "layer is dense"),
      EXPERT_FIELD(experts_by_layer, between(1, kManyExperts), "experts",
                   "number of experts in each expert layer, if they differ, as [64, 64, 128] "
                   "(pyramid of experts)"),
      EXPERT_FIELD(top_k, between(1, kManyExperts), "experts",
                   "number of experts that the router selects for each token")
          .of_weights()
          .also("num_experts_per_tok top_k"),
      EXPERT_FIELD(ffn_hidden_size, between(0, kWide), "",
                   "inner width of an expert; 0: model.ffn_hidden_size")
          .also("moe_intermediate_size"),
      EXPERT_FIELD(first_layer, between(0, kManyLayers), "",
                   "index of the first layer with experts, counted from 0"),
      EXPERT_FIELD(layer_interval, between(1, kManyLayers), "layers",
                   "interval between layers with experts"),
      EXPERT_FIELD(layers, between(0, kManyLayers), "",
                   "layers with experts, counted from 0, instead of the two keys above; []: use "
                   "those keys"),
      EXPERT_FIELD(score, any(), "", "score function of the router").of_weights(),
      EXPERT_FIELD(router_bias, any(), "", "learned bias of the router logits (gpt-oss)"),
      EXPERT_FIELD(linear_bias, any(), "",
                   "biases of the experts' linear layers (gpt-oss); model.bias applies to all "
                   "other layers"),
      EXPERT_FIELD(scale_inputs, any(), "",
                   "multiply the inputs of the selected experts by their weights, not their "
                   "outputs (Llama 4)")
          .of_weights(),
      EXPERT_FIELD(normalize_weights, any(), "",
                   "normalize the weights of a token's experts to a sum of 1 (softmax: as if "
                   "computed over the selected experts only; with sigmoid, the weight of a single "
                   "expert remains its score); false: the weights are the scores")
          .of_weights(),
      EXPERT_FIELD(scaling_factor, between(1e-6, 1e6), "",
                   "factor applied to the weights of the experts")
          .of_weights(),
      EXPERT_FIELD(num_groups, between(1, kManyExperts), "groups",
                   "number of equal groups of consecutive experts, for group-limited routing")
          .of_weights(),
      EXPERT_FIELD(top_groups, between(1, kManyExperts), "groups",
                   "number of groups that a token may use: those with the largest sums of their "
                   "best moe.top_k / top_groups scores; 1 with one group: no limit")
          .of_weights(),
      EXPERT_FIELD(expert_bias, any(), "",
                   "bias added to the scores for expert selection only, not to the "
                   "weights; each step adjusts it to balance the load (aux-loss-free balancing)"),
      EXPERT_FIELD(bias_update_rate, between(0, 1), "",
                   "amount by which each step increases or decreases a bias"),
      EXPERT_FIELD(shared_ffn_hidden_size, between(0, kWide), "",
                   "inner width of a shared expert that processes all tokens; 0: none"),
      EXPERT_FIELD(shared_gate, any(), "",
                   "multiply the output of the shared expert by a learned sigmoid gate per token"),
      EXPERT_FIELD(residual, any(), "",
                   "combine the shared expert and the sum of the routed experts with two learned "
                   "coefficients per token instead of adding them (DeepSpeed's residual experts)")
          .of_weights(),
      EXPERT_FIELD(aux_loss, any(), "",
                   "scope of the load-balancing loss: each sequence; each micro-batch, which "
                   "depends on the layout; or the global batch, using the routing of the previous "
                   "step"),
      EXPERT_FIELD(aux_loss_coeff, between(0, 1e6), "",
                   "coefficient of the load-balancing loss of a layer, which equals the "
                   "coefficient at perfect balance; 0: off"),
      EXPERT_FIELD(z_loss_coeff, between(0, 1e6), "",
                   "coefficient of the router z-loss (squared log-sum-exp of the logits); 0: off"),
      EXPERT_FIELD(capacity_factor, between(0, 1e6), "",
                   "capacity of an expert per sequence in training, relative to a balanced load; "
                   "0: no token is dropped"),
      EXPERT_FIELD(drop_policy, any(), "",
                   "tokens that an expert keeps when its capacity is exceeded: those with the "
                   "largest weights, or the earliest"),
  };
}

}  // namespace trireme
