// Linear attention: gated delta net.
#include "graph/ops/definitions.h"

namespace trireme::ops {

const OpDefinition short_conv_op{.name = "short_conv"};
const OpDefinition short_conv_input_grad_op{.name = "short_conv_input_grad"};
const OpDefinition short_conv_weight_grad_op{.name = "short_conv_weight_grad"};
const OpDefinition decay_rates_op{.name = "decay_rates"};
const OpDefinition decay_rates_grad_op{.name = "decay_rates_grad"};
const OpDefinition delta_rule_op{.name = "delta_rule"};
const OpDefinition delta_rule_grad_op{.name = "delta_rule_grad"};
const OpDefinition gate_heads_op{.name = "gate_heads"};
const OpDefinition gate_heads_grad_op{.name = "gate_heads_grad"};

}  // namespace trireme::ops
