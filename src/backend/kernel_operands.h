// Operand structs of the kernels with many operands (kernels.h), so that call sites name each one,
// and the scalars of optimizer steps.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backend/step_block.h"
#include "base/dtype.h"

namespace trireme {

// The type of arithmetic, statistics and weight gradients where T is stored.
template <class T>
using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Optimizer steps. All scalars are double because 1 - beta2 would lose four digits in
// float. The step-dependent values (learning rate, update_scale, bias corrections)
// are read from the block.
struct AdamStep {
  const StepBlock* block;
  double beta1, beta2, eps, weight_decay;
  bool decoupled;       // true: AdamW; false: weight decay joins the gradient
  double lr_ratio = 1;  // of the learning rate to the block's
};

// The same for SGD with momentum.
struct SgdStep {
  const StepBlock* block;
  double momentum, weight_decay;
  double lr_ratio = 1;
};

// Lion (Chen et al. 2023), with decoupled weight decay.
struct LionStep {
  const StepBlock* block;
  double beta1, beta2, weight_decay;
  double lr_ratio = 1;
};

// The two elementwise parts of Muon (Jordan et al. 2024): the direction before it is made
// orthogonal, and the step along it, whose learning rate is lr_ratio times the block's.
struct MomentumStep {
  const StepBlock* block;
  double momentum;
  bool nesterov;
};
struct DirectionStep {
  const StepBlock* block;
  double lr_ratio, weight_decay;
};

template <class T>
struct NormGradOperands {
  T* dx;
  Acc<T>*dweight, *dbias;  // dbias may be null
  // Sums over the rows of dx and of dres: gradients of the biases of layers whose results have
  // these gradients. May be null. On CPUs with the bits of bias_grad.
  Acc<T>*dx_sum = nullptr, *dres_sum = nullptr;
  bool accumulate;
  const T *dy, *x;  // x: input of the norm
  const Acc<T>*mean, *rstd;
  const T* weight;
  const T* dres;      // may be null, and may be dx
  Acc<T>* workspace;  // norm_grad_workspace(rows, cols, sums) elements, with 2 to 4 sums
};

// dx may be dy or x, but not for gated kinds. For other kinds, dbias may be the gradient of the
// bias that x contains: the sum over the rows of dx, as bias_grad makes it.
template <class T>
struct ActivationGradOperands {
  T* dx;
  const T *dy, *x;
  Acc<T>* dbias = nullptr;
  bool accumulate = false;      // of dbias
  Acc<T>* workspace = nullptr;  // with dbias: bias_grad_workspace(rows, cols) elements
};

template <class T>
struct AttentionGradOperands {
  T* dqkv;
  const T *dctx, *qkv, *ctx;
  const Acc<T>* lse;
  // Gradient of the bias that qkv contains: the sum over the rows of dqkv. May be null, and is on
  // CPUs.
  Acc<T>* dbias = nullptr;
  bool accumulate = false;  // of dbias
  void* workspace;          // attention_workspace() and, with dbias, attention_bias_workspace()
};

template <class T>
struct HeadNormGradOperands {
  T* dx;                               // must not alias dy or x
  Acc<T>*dquery_weight, *dkey_weight;  // null where weights are constant: without all_heads only
  bool accumulate;
  const T *dy, *x;  // x: input of the norm
  const Acc<T>* rstd;
  const T *query_weight, *key_weight;
  const Acc<T>* sums;  // head_sums for dy, reduced over all ranks; or null
  Acc<T>* workspace;   // norm_grad_workspace(rows, query_weights()) elements
};

// All tables but the first may be null.
template <class T>
struct EmbeddingOperands {
  T* y;
  const std::int32_t* ids;
  const T* table;
  const T* position_table;
  const std::int32_t* positions;  // null: r % seq
  const T* type_table;
  const std::int32_t* types;
  std::int64_t rows, cols, seq;
  std::int64_t first_id, local_ids;
};

template <class T>
struct RouteGradOperands {
  Acc<T>* dlogits;
  Acc<T>*dbias, *dload;  // may be null
  bool accumulate;
  const Acc<T>*dweights, *logits;
  const std::int32_t *chosen, *places;
  const std::int64_t* counts;
  const T* load;
  const StepBlock* block;
  std::int32_t layer;
};

template <class T>
struct CombineGradOperands {
  T* dx;
  Acc<T>* dweights;
  const T *dy, *x;
  const Acc<T>* weights;
  const std::int32_t *places, *offsets;
};

template <class T>
struct ShortConvGradOperands {
  Acc<T>* dweight;
  Acc<T>* dbias;  // null without a bias
  bool accumulate;
  const T *dy, *x, *weight, *bias;
  Acc<T>* workspace;  // norm_grad_workspace(rows, channels * (width + 1)) elements
};

template <class T>
struct DecayGradOperands {
  T* dba;
  Acc<T>*da_log, *ddt_bias, *dskip;  // dskip: null without time steps
  bool accumulate;
  const Acc<T>* drates;
  const T *ba, *a_log, *dt_bias;
  Acc<T>* workspace;  // norm_grad_workspace(rows, 3 * heads) elements
};

template <class T>
struct DeltaGradOperands {
  T* dqkv;
  Acc<T>* drates;
  const T *dy, *qkv;
  const Acc<T>* rates;
  void* workspace;
};

template <class T>
struct GateHeadsGradOperands {
  T *dx, *dgate;
  Acc<T>* dweight;  // null without the norm
  bool accumulate;
  const T *dy, *x, *gate, *weight;
  Acc<T>* workspace;  // norm_grad_workspace(rows, the weight's elements) elements
};

}  // namespace trireme
