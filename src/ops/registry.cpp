// The table of all ops, in the order of OpKind.
#include "ops/definitions.h"

namespace trireme {

const OpDefinition& definition(OpKind op) {
  using namespace ops;
  switch (op) {
    case OpKind::embedding:
      return embedding_op;
    case OpKind::embedding_grad:
      return embedding_grad_op;
    case OpKind::norm:
      return norm_op;
    case OpKind::norm_grad:
      return norm_grad_op;
    case OpKind::linear:
      return linear_op;
    case OpKind::linear_input_grad:
      return linear_input_grad_op;
    case OpKind::linear_weight_grad:
      return linear_weight_grad_op;
    case OpKind::bias_grad:
      return bias_grad_op;
    case OpKind::activation:
      return activation_op;
    case OpKind::activation_grad:
      return activation_grad_op;
    case OpKind::rope:
      return rope_op;
    case OpKind::attention:
      return attention_op;
    case OpKind::attention_grad:
      return attention_grad_op;
    case OpKind::cached_attention:
      return cached_attention_op;
    case OpKind::add:
      return add_op;
    case OpKind::slice:
      return slice_op;
    case OpKind::take_rows:
      return take_rows_op;
    case OpKind::take_rows_grad:
      return take_rows_grad_op;
    case OpKind::softmax_stats:
      return softmax_stats_op;
    case OpKind::token_loss:
      return token_loss_op;
    case OpKind::softmax_merge:
      return softmax_merge_op;
    case OpKind::cross_entropy_grad:
      return cross_entropy_grad_op;
    case OpKind::grad_all_reduce:
      return grad_all_reduce_op;
    case OpKind::all_reduce:
      return all_reduce_op;
    case OpKind::all_gather:
      return all_gather_op;
    case OpKind::reduce_scatter:
      return reduce_scatter_op;
    case OpKind::count:
      break;
  }
  fail("internal error: op {} has no definition", static_cast<int>(op));
}

}  // namespace trireme
