// An architecture whose layers are of two kinds in turn: the decoder's block, and one without
// attention.
#pragma once

#include "model/builder.h"

namespace trireme::testing_model {

class TwoKinds final : public Builder {
 public:
  TwoKinds(const ModelConfig& model, const BuildOptions& options, bool dropout)
      : Builder(model, options, dropout),
        decoder_(decoder_architecture.make_builder(model, options, dropout)) {}

  std::unique_ptr<Graph> embedding() const override { return decoder_->embedding(); }
  BlockKind block_kind(std::int64_t layer) const override {
    return {.added = static_cast<int>(layer % 2)};
  }
  std::unique_ptr<Graph> block(const BlockKind& kind) const override {
    if (kind.added == 0) return decoder_->block({});
    auto graph = new_graph();
    Graph& g = *graph;
    const ValueId x = activations(g);
    const ValueId ids = any_dropout() ? sample_ids(g) : no_value;
    const ValueId normed = norm(g, x, "only_norm");
    g.set_output(ops::add(g, x, mlp(g, normed), ids, site(mlp_out_site), seq_));
    return graph;
  }
  std::unique_ptr<Graph> head() const override { return decoder_->head(); }

 private:
  std::unique_ptr<Builder> decoder_;
};

inline const ArchitectureDefinition two_kinds{
    [](const ModelConfig& model, const BuildOptions& options, bool dropout)
        -> std::unique_ptr<Builder> { return std::make_unique<TwoKinds>(model, options, dropout); },
    decoder_architecture.losses};

}  // namespace trireme::testing_model
