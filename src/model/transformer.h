// GPT, Llama and BERT as graphs: an embedding, blocks of one or several kinds that are instantiated
// num_layers times in total, and a head.
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

// The part of a model held by a pipeline stage: layers [first_layer, + layers), preceded by the
// embedding and followed by the head if the flags are set.
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
  std::int64_t cache_capacity = 0;  // decoding: capacity of the cache in positions
  Recompute recompute = Recompute::none;
  std::int64_t recompute_layers = 0;  // with full: number of leading layers per stage; 0: all
  bool all_lengths = false;  // rotary tables have rows for short and long sequences (rotary_row)
  bool packed_documents = false;  // attention stays inside documents (BatchInput::first_visible)
  // bert, training: maximum predicted positions per sequence, averaged over the micro-batch; logits
  // are computed for BatchInput::predicted_rows only. 0: for all rows.
  std::int64_t predictions = 0;
  TensorParallel tensor;         // training only
  ContextParallel context;       // training only
  ExpertParallel expert;         // training only
  std::int64_t exact_block = 0;  // tokens per block in the graphs; training only
  Fp8Config fp8;                 // of the linear layers of blocks
  StagePart part;
  DeviceKind device = DeviceKind::cpu;  // decides which nodes are fused
  bool reports_scores = false;  // attention reports the largest logit of each head; training only
  // Logits are computed in slices of rows of at most this size.
  std::int64_t logits_bytes = std::int64_t{256} << 20;
};

// Builds the model, or the part given by options.part, as one stage. `model` must be resolved, have
// its vocabulary and have passed validate_layout. Parameter names and layer numbers do not depend
// on the part; a stage without the embedding reads Stage::stage_input. With sequence parallelism
// the tensor-parallel size must divide batch x seq (refused otherwise).
StageDefinition build_model(const ModelConfig& model, const BuildOptions& options);

// Vocabulary size padded for `tensor_ranks` tensor-parallel ranks.
std::int64_t padded_vocabulary(const ModelConfig& model, int tensor_ranks = 1);
// Number of trained parameters without padding; tied ones count once.
std::int64_t parameter_count(const StageDefinition& definition);
std::int64_t parameter_count(const ModelConfig& model);
// Model flops of a training step per token, forward and backward, without recomputation: 6 per
// active matrix weight, and 12 * layers * hidden * seq for full attention (no causal halving).
// bert: counted as if every position were predicted.
double training_flops_per_token(const ModelConfig& model);
// The part of them for attention scores and their weighted sums.
double attention_flops_per_token(const ModelConfig& model);

// Maps precisions of the configuration: "fp32", "bf16", "fp16", "fp64".
DType compute_dtype(Precision precision);

// Fills the constants of an allocated stage: rotary tables, in the accumulation type, for sequences
// of that many positions. `all_lengths`: as in the stage's options.
void fill_constants(const Stage& stage, const ModelConfig& model, std::int64_t positions,
                    bool all_lengths = false);

}  // namespace trireme
