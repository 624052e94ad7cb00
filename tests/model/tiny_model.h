// A tiny model, whole or any part of it on any rank: the same weights and the same micro-batch
// whatever the layout, and gradients by the elements of the whole parameters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "config/config.h"
#include "model/transformer.h"
#include "named.h"

namespace trireme::testing_model {

// Four key/value groups, so that four ranks can have one each; the vocabulary leaves two of four
// ranks without a word.
inline ModelConfig tiny(const std::string& family) {
  const bool llama = family.starts_with("llama");
  ModelConfig model;
  model.family = llama ? "llama" : family.starts_with("gpt") ? "gpt" : family;
  const bool olmo2 = family.starts_with("llama_olmo2");
  model.qk_norm = family == "llama_qk_norm" || olmo2;
  if (olmo2) model.qk_norm_over = NormSpan::all_heads;
  if (olmo2 || family == "llama_output_norm") model.norm_placement = NormPlacement::output;
  if (family == "llama_window" || family == "llama_some_windows") model.attention_window = 3;
  if (family == "llama_some_windows") model.window_layers = {1};
  model.num_layers = 2;
  model.hidden_size = 16;
  model.num_heads = llama ? 8 : 4;
  model.num_kv_heads = family.ends_with("_shared") ? 2 : 4;
  model.head_dim = 4;
  model.ffn_hidden_size = 24;
  model.seq_length = 6;
  model.max_positions = 8;
  model.vocab_size = 13;
  model.vocab_multiple = 8;
  model.position = named(llama ? "rope" : "learned");
  model.norm = named(llama ? "rms_norm" : "layer_norm");
  model.activation = named(llama ? "swiglu" : "gelu_tanh");
  model.bias = model.qkv_bias = !llama;
  model.tie_embeddings = !llama;
  if (family == "gpt_bloom") {
    model.position = PositionEncoding::alibi;
    model.embedding_norm = true;
  }
  if (family == "llama_gemma2") {
    model.norm_placement = NormPlacement::both;
    model.attention_window = 3;
    model.window_layers = {0};
    model.attention_scale = 0.4;
    model.attention_soft_cap = 0.7;
    model.logit_soft_cap = 1.1;
  }
  // Queries and keys normalized instead of scores capped, and positions that turn faster in the
  // layer with the window.
  if (family == "llama_gemma3") {
    model.norm_placement = NormPlacement::both;
    model.qk_norm = model.zero_centered_qk_norms = true;
    model.attention_window = 3;
    model.window_layers = {0};
    model.rope_base_local = 7;
  }
  // A layer without positions, queries that grow with theirs, and constants that multiply.
  if (family == "llama_granite") {
    model.no_rope_layers = {1};
    model.rope_query_beta = 0.8;
    model.rope_original_length = 2;
    model.embedding_multiplier = 3;
    model.residual_multiplier = 0.3;
    model.logit_multiplier = 0.4;
  }
  // A layer with chunks, and one without positions, whose queries grow with theirs.
  if (family == "llama_chunks") {
    model.attention_window = 4;
    model.window_layers = {0};
    model.window_chunks = model.qk_l2_norm = true;
    model.no_rope_layers = {1};
    model.no_rope_query_beta = 0.8;
    model.no_rope_query_length = 2;
  }
  if (family.starts_with("llama_gemma")) {
    model.activation = MlpActivation::geglu;
    model.zero_centered_norms = model.scale_embedding = model.tie_embeddings = true;
  }
  if (family.starts_with("llama_latent")) {
    model.num_kv_heads = model.num_heads;
    model.kv_lora_rank = 5;
    model.q_lora_rank = family == "llama_latent" ? 6 : 0;
    model.qk_nope_head_dim = 3;
    model.qk_rope_head_dim = 2;
    model.v_head_dim = family == "llama_latent" ? 4 : 5;
    model.head_dim = 5;
    model.attention_scale = 0.6;
  }
  // A layer with linear attention, and one with gated attention that turns half of each head.
  if (family.starts_with("llama_delta")) {
    model.qk_norm = model.attention_gate = true;
    model.zero_centered_norms = model.zero_centered_qk_norms = true;
    model.rope_percent = 0.5;
    model.linear_layers = {0};
    model.linear_key_heads = 4;
    model.linear_value_heads = family == "llama_delta_wide" ? 4 : 8;
    model.linear_key_head_dim = 3;
    model.linear_value_head_dim = 5;
    model.linear_conv_width = 3;
  }
  // A layer with Mamba-2, and one with attention without positions.
  if (family == "llama_mamba" || family == "llama_parts") {
    model.position = PositionEncoding::none;
    model.linear_layers = {0};
    model.linear_kind = LinearKind::mamba2;
    model.linear_key_heads = 4;
    model.linear_value_heads = 8;
    model.linear_key_head_dim = 3;
    model.linear_value_head_dim = 5;
    model.linear_conv_width = 3;
    model.linear_conv_bias = true;
  }
  // Layers of one part each: Mamba-2, an MLP without a gate, attention, and another MLP.
  if (family == "llama_parts") {
    model.num_layers = 4;
    model.mlp_layers = {1, 3};
    model.activation = MlpActivation::squared_relu;
  }
  if (family.ends_with("_mtp")) model.mtp_layers = 2;
  if (family == "llama_shared") model.qk_norm = model.qkv_bias = true;
  if (family.starts_with("bert")) {
    model.family = "bert";
    model.norm_placement = named(family == "bert_post" ? "post" : "pre");
  }
  return model;
}

// Calls visit(local, whole) for every element of the local part that is not padding; both count
// elements in row-major order.
template <class Visit>
void for_elements(const ParameterSpec& spec, Visit&& visit) {
  const std::int64_t columns = spec.shape.count() / spec.shape[0];
  const std::int64_t whole_columns = spec.saved_shape.count() / spec.saved_shape[0];
  std::vector<RowPiece> pieces = spec.pieces;
  if (pieces.empty()) pieces = {{0, 0, spec.saved_shape[0]}};
  for (const RowPiece& piece : pieces) {
    for (std::int64_t r = 0; r < piece.rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        visit((piece.local_row + r) * columns + c,
              (piece.row + r) * whole_columns + spec.first_column + c);
      }
    }
  }
}

// T is the compute type: double or float.
template <class T>
class TinyStage {
 public:
  TinyStage(const ModelConfig& model, BuildOptions build, const StageOptions& options = {},
            const RankGroups& groups = {})
      : rows_(2 * model.seq_length), predictions_((1 + model.mtp_layers) * rows_) {
    build.compute = sizeof(T) == 8 ? DType::f64 : DType::f32;
    build.batch = 2;
    build.logits_bytes = 5 * padded_vocabulary(model, build.tensor.size) / build.tensor.size *
                         static_cast<std::int64_t>(sizeof(T));  // several slices of rows
    stage_ = std::make_unique<Stage>(build_model(model, build), options);
    stage_->allocate(groups);
    fill_constants(*stage_, model, model.seq_length);
    fill_parameters();
    fill_batch(model);
  }

  Stage& stage() { return *stage_; }
  const std::vector<Parameter>& parameters() const { return stage_->definition().parameters; }
  void forward() { stage_->run({Pass::forward, 0, &step_}); }
  void backward() { stage_->run({Pass::backward, 0, &step_, true}); }
  void weight_grad() { stage_->run({Pass::weight_grad, 0, &step_, true}); }
  void evaluate() { stage_->evaluate(); }

  std::vector<T> losses() const {
    return copy(stage_->result(0, ResultOutput::token_loss), predictions_);
  }
  // Of this rank's part, padding included.
  std::vector<T> gradient(int p) const {
    return copy(stage_->gradient(p), parameters()[p].spec.shape.count());
  }
  std::map<std::string, std::vector<T>> gradients() const {
    std::map<std::string, std::vector<T>> all;
    for (std::size_t p = 0; p < parameters().size(); ++p) {
      all[parameters()[p].name] = gradient(static_cast<int>(p));
    }
    return all;
  }

 private:
  static std::vector<T> copy(const void* from, std::int64_t count) {
    const T* begin = static_cast<const T*>(from);
    return {begin, begin + count};
  }

  // A function of the parameter's name and of the place in the whole.
  void fill_parameters() {
    for (std::size_t p = 0; p < parameters().size(); ++p) {
      const Parameter& parameter = parameters()[p];
      T* weights = static_cast<T*>(stage_->parameter(static_cast<int>(p)));
      const double offset = parameter.spec.init == ParameterSpec::Init::ones ? 1 : 0;
      const std::uint64_t stream = std::hash<std::string>()(parameter.name);
      for_elements(parameter.spec, [&](std::int64_t local, std::int64_t whole) {
        weights[local] = static_cast<T>(offset + 0.3 * normal(1, stream, whole));
      });
    }
  }

  template <class Element, class Function>
  void fill(BatchInput which, std::int64_t count, Function&& function) {
    auto* to = static_cast<Element*>(stage_->batch(0, which));
    for (std::int64_t i = 0; to && i < count; ++i) to[i] = static_cast<Element>(function(i));
  }

  void fill_batch(const ModelConfig& model) {
    const auto words = static_cast<double>(model.vocab_size);
    fill<std::int32_t>(BatchInput::tokens, rows_, [&](auto r) { return words * uniform(2, 0, r); });
    fill<std::int32_t>(BatchInput::targets, predictions_,
                       [&](auto r) { return words * uniform(2, 1, r); });
    fill<float>(BatchInput::loss_weights, predictions_, [](auto r) { return r % 5 == 3 ? 0 : 1; });
    fill<std::int32_t>(BatchInput::positions, rows_, [&](auto r) { return r % model.seq_length; });
    fill<std::int64_t>(BatchInput::sample_ids, 2, [](auto b) { return 70 + b; });
    fill<std::int32_t>(BatchInput::first_in_window, rows_, [&](auto r) {
      const std::int64_t window = model.attention_window;
      return window > 0 ? std::max<std::int64_t>(0, r % model.seq_length + 1 - window) : 0;
    });
    const std::int64_t seq = model.seq_length;
    fill<std::int32_t>(BatchInput::segments, rows_, [&](auto r) { return r % seq > 2; });
    fill<std::int32_t>(BatchInput::lengths, 2, [&](auto b) { return b == 0 ? seq - 2 : seq; });
    fill<std::int32_t>(BatchInput::first_rows, 2, [&](auto b) { return b * seq; });
    fill<std::int32_t>(BatchInput::order_labels, 2, [](auto b) { return b; });
  }

  std::unique_ptr<Stage> stage_;
  StepBlock step_{.seed = 99, .step = 5, .loss_scale = 0.25, .sample_scale = 1.5};
  std::int64_t rows_, predictions_;
};

}  // namespace trireme::testing_model
