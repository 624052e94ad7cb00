// Base class for builders of a model's segments as graphs: parts common to all families, and one
// derived builder per family.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/ops/ops.h"
#include "model/layer_kinds.h"
#include "model/losses.h"
#include "model/transformer.h"

namespace trireme {

class Builder {
 public:
  // `dropout`: true for training only. Both references must outlive the builder.
  Builder(const ModelConfig& model, const BuildOptions& options, bool dropout);
  virtual ~Builder() = default;

  virtual std::unique_ptr<Graph> embedding() const = 0;
  // Layers may be of several kinds; each kind has one graph.
  virtual BlockKind block_kind(std::int64_t /*layer*/) const { return {}; }
  virtual std::unique_ptr<Graph> block(const BlockKind& kind) const = 0;
  virtual std::unique_ptr<Graph> head() const = 0;

 protected:
  // Places within a block with independent dropout.
  enum DropoutSite : std::uint32_t {
    attention_site,
    attention_out_site,
    mlp_out_site,
    embedding_site
  };
  static constexpr std::uint32_t sites_of_layer = 8;  // see dropout_at_run
  struct Norm {
    ValueId weight, bias;
  };

  std::unique_ptr<Graph> new_graph() const {
    return std::make_unique<Graph>(options_.compute, options_.exact_block);
  }
  ValueId activations(Graph& g) const { return g.segment_input({local_rows_, m_.hidden_size}); }

  // x + attention(norm(x)), then y + mlp(norm(y)); optionally with norms after attention and MLP.
  std::unique_ptr<Graph> pre_norm_block(const BlockKind& kind, bool causal) const;
  // x + attention(norm(x)), or x + mlp(norm(x)).
  std::unique_ptr<Graph> single_part_block(const BlockKind& kind, bool causal) const;
  // x + norm(attention(x)), then y + norm(mlp(y)).
  std::unique_ptr<Graph> output_norm_block(const BlockKind& kind, bool causal) const;
  // Self-attention to earlier positions, or to the whole sequence without padding; `kind` decides
  // on windows and positions. A block with several attentions must give each a name and a dropout
  // site.
  ValueId attention(Graph& g, ValueId x, ValueId ids, bool causal, const BlockKind& kind = {},
                    const std::string& name = "attention",
                    std::uint32_t where = attention_site) const;
  // Queries, keys and values in attention's layout, for ordinary and for latent heads. `positions`:
  // whether they will be rotated.
  ValueId heads(Graph& g, ValueId x, const HeadShare& own, const std::string& name,
                bool positions) const;
  ValueId latent_heads(Graph& g, ValueId x, const LatentAttributes& own,
                       const std::string& name) const;
  LatentAttributes latent_shape(std::int64_t heads) const;
  // Linear attention: a gated delta net or Mamba-2 (linear_attention.cpp).
  ValueId linear_attention(Graph& g, ValueId x) const;
  // Multiplies the heads of attention by sigmoids of a projection of its input x.
  ValueId gated_heads(Graph& g, ValueId context, ValueId x, const std::string& name) const;
  // The sinks of this rank's heads, if the model has them.
  ValueId sinks(Graph& g, std::int64_t heads, const std::string& name) const;
  // Applies rotary embedding to queries and keys, with local tables in layers with a window.
  ValueId turned_heads(Graph& g, ValueId qkv, const HeadShare& own, bool window) const;
  // In layers without rotary embedding: multiplies queries by a factor of their position.
  ValueId scaled_queries(Graph& g, ValueId qkv, const HeadShare& own) const;
  // Applies the norm of queries and keys.
  ValueId normed_heads(Graph& g, ValueId qkv, const HeadShare& own, const std::string& name) const;
  ValueId mlp(Graph& g, ValueId x, const std::string& name = "mlp") const;
  ValueId mlp_or_experts(Graph& g, ValueId x, const BlockKind& kind) const {
    return kind.experts > 0 ? experts(g, x, kind.experts) : mlp(g, x);
  }
  // Mixture of `count` experts per row, plus the shared expert if any (experts.cpp).
  ValueId experts(Graph& g, ValueId x, std::int64_t count) const;
  ValueId chosen_experts(Graph& g, ValueId x, std::int64_t count) const;
  ValueId shared_expert(Graph& g, ValueId x) const;
  ops::Routes routes(Graph& g, ValueId x, std::int64_t count) const;
  RouteAttributes route_attributes() const;
  DispatchRule dispatch_rule(const Graph& g, std::int64_t count) const;
  // Replicated parameters of routers and gates, which each rank applies to its own rows; a weight
  // is [out, hidden].
  ValueId for_own_rows(Graph& g, ParameterSpec spec) const;
  ValueId row_weight(Graph& g, const std::string& name, std::int64_t out) const;
  // of_all_rows: x is replicated on all ranks, even under sequence parallelism.
  ValueId norm(Graph& g, ValueId x, const std::string& name, bool of_all_rows = false) const;
  // RMSNorm of `width` columns shared by all heads.
  ValueId latent_norm(Graph& g, ValueId x, const std::string& name, std::int64_t width) const;
  // Fused residual addition, with dropout of delta, and the norm after it.
  ops::SumAndNorm add_norm(Graph& g, ValueId x, ValueId delta, const std::string& name, ValueId ids,
                           DropoutSite where) const;

  // factor * x; x itself if the factor is 1.
  ValueId scaled(Graph& g, ValueId x, double factor) const;

  VocabTable word_table() const;  // of the embedding
  VocabTable head_table() const;  // the same if they are tied
  Norm norm_parameters(Graph& g, const std::string& name, bool of_all_rows) const;
  ValueId normal(Graph& g, const std::string& name, Shape shape) const;
  ValueId table(Graph& g, const std::string& name, Shape shape) const;  // of positions or segments
  ValueId zeros(Graph& g, const std::string& name, Shape shape) const;

  ValueId sample_ids(Graph& g) const;
  ValueId rows_input(Graph& g, BatchInput which) const;  // i32 [rows]
  float dropout(double probability) const {
    return dropout_ ? static_cast<float>(probability) : 0.f;
  }
  bool any_dropout() const;
  // Dropout rule of activations between layers.
  DropoutRule site(std::uint32_t where) const;
  NormKind norm_kind() const;
  ActivationRule activation_rule() const;
  // Standard deviation of initial matrices of blocks.
  double hidden_std() const;
  // Matrices that write into the residual stream start smaller (Megatron, after GPT-2).
  double deep_std() const;
  std::int64_t rope_positions() const;

  const ModelConfig& m_;
  const BuildOptions& options_;
  const TensorParallel& tp_;
  bool dropout_;
  std::uint32_t first_site_ = 0;  // of several blocks that share a layer's dropout sites
  // Positions of full sequences; this context-parallel rank's share of them; local rows of a
  // micro-batch; and rows between layers.
  std::int64_t whole_seq_, seq_, rows_, local_rows_;
};

// Maps the configuration's activation to the kernel's.
ActivationKind activation_of(MlpActivation activation);

// Builder of an architecture's graphs and losses. One file defines one.
struct ArchitectureDefinition {
  // Rejects (exit code 2) a purpose that the architecture does not support.
  std::unique_ptr<Builder> (*make_builder)(const ModelConfig& model, const BuildOptions& options,
                                           bool dropout);
  std::span<const Loss> (*losses)(const ModelConfig& model);
};
extern const ArchitectureDefinition decoder_architecture;  // gpt.cpp
extern const ArchitectureDefinition encoder_architecture;  // bert.cpp
// Sets the architecture of all families added by a program (config/families.h), which distinguishes
// them by model.family. Call before the first use.
void set_added_architecture(const ArchitectureDefinition& architecture);
// Returns the architecture of the model's family.
const ArchitectureDefinition& architecture_of(const ModelConfig& model);

// Like build_model() in transformer.h, for an architecture other than the family's.
StageDefinition build_model(const ModelConfig& model, const BuildOptions& options,
                            const ArchitectureDefinition& architecture);

}  // namespace trireme
