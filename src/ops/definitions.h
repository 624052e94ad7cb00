// The definitions that registry.cpp gathers; each is defined in the file of its op.
#pragma once

#include "graph/op.h"

namespace trireme::ops {

extern const OpDefinition embedding_op, embedding_grad_op;
extern const OpDefinition norm_op, norm_grad_op;
extern const OpDefinition linear_op, linear_input_grad_op, linear_weight_grad_op, bias_grad_op;
extern const OpDefinition activation_op, activation_grad_op;
extern const OpDefinition rope_op;
extern const OpDefinition attention_op, attention_grad_op, cached_attention_op;
extern const OpDefinition add_op, slice_op;
extern const OpDefinition take_rows_op, take_rows_grad_op;
extern const OpDefinition softmax_stats_op, softmax_merge_op, token_loss_op, cross_entropy_grad_op;
extern const OpDefinition grad_all_reduce_op, all_reduce_op, all_gather_op, reduce_scatter_op;

}  // namespace trireme::ops
