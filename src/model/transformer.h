// GPT, Llama and BERT as graphs: a model is an embedding, blocks of one kind or several that are
// instantiated num_layers times in all, and a head.
#pragma once

#include "config/config.h"
#include "parallel/context.h"
#include "parallel/expert.h"
#include "parallel/layers.h"
#include "runtime/stage.h"

namespace trireme {

// Purpose that the model is built for.
enum class Purpose : std::uint8_t {
  training,  // loss per token; also evaluates
  scoring,   // logits of every position
  decoding,  // logits of new positions against a key/value cache
};

// The part of a model that a pipeline stage holds: the layers [first_layer, + layers), with the
// embedding before them and the head after them where the flags are set.
struct StagePart {
  std::int64_t first_layer = 0;
  std::int64_t layers = -1;  // -1: all
  bool embedding = true;
  bool head = true;
};

struct BuildOptions {
  Purpose purpose = Purpose::training;
  DType compute = DType::f32;
  std::int64_t batch = 1;           // sequences of a micro-batch
  std::int64_t seq = 0;             // positions per whole sequence; 0: the model's seq_length
  std::int64_t cache_capacity = 0;  // decoding: positions that the cache holds
  Recompute recompute = Recompute::none;
  std::int64_t recompute_layers = 0;  // with full: number of leading layers per stage; 0: all
  bool packed_documents = false;  // attention stays inside documents (BatchInput::first_visible)
  // bert, training: limit of predicted positions per sequence, on average over the micro-batch;
  // logits are computed for BatchInput::predicted_rows only. 0: for all rows.
  std::int64_t predictions = 0;
  TensorParallel tensor;         // training only
  ContextParallel context;       // training only
  ExpertParallel expert;         // training only
  std::int64_t exact_block = 0;  // tokens; of the graphs, for training only
  Fp8Config fp8;                 // of the linear layers of blocks
  StagePart part;
  // Logits are computed in slices of rows of at most this size.
  std::int64_t logits_bytes = std::int64_t{256} << 20;
};

// The model, or the part of it that options.part names, as one stage. `model` must be resolved,
// have its vocabulary and have passed validate_layout. Parameters keep their names and layers their
// numbers whatever the part; a stage without the embedding reads Stage::stage_input. Under sequence
// parallelism batch x seq must divide by the tensor-parallel ranks (refused otherwise).
StageDefinition build_model(const ModelConfig& model, const BuildOptions& options);

// Vocabulary with padding, as `tensor_ranks` compute with it together.
std::int64_t padded_vocabulary(const ModelConfig& model, int tensor_ranks = 1);
// Trained parameters without padding, tied ones once.
std::int64_t parameter_count(const StageDefinition& definition);
std::int64_t parameter_count(const ModelConfig& model);
// Necessary flops of a training step per token, forward and backward, without recomputation: 6 per
// active weight of a matrix, and 12 * layers * hidden * seq for full attention (no causal halving).
// bert: as if every position were predicted.
double training_flops_per_token(const ModelConfig& model);
// The part of it that scores and what they weigh take.
double attention_flops_per_token(const ModelConfig& model);

// Precision names of the configuration: "fp32", "bf16", "fp16", "fp64".
DType compute_dtype(Precision precision);

// Fills the constants of an allocated stage: rotary tables, in the type of accumulation.
void fill_constants(const Stage& stage, const ModelConfig& model, std::int64_t positions);

}  // namespace trireme
