// Decoder-only models (next-token prediction): GPT and Llama, and the common base of families that
// a program adds.
#pragma once

#include <memory>

#include "model/builder.h"

namespace trireme {

class GptBuilder : public Builder {
 public:
  using Builder::Builder;

  std::unique_ptr<Graph> embedding() const override;
  BlockKind block_kind(std::int64_t layer) const override;
  std::unique_ptr<Graph> block(const BlockKind& kind) const override;
  std::unique_ptr<Graph> head() const override;

 protected:
  // Word and position embeddings: [rows, hidden].
  ValueId embed(Graph& g) const;
  ValueId embed(Graph& g, ValueId tokens, ValueId table) const;
  // The final norm, and the loss of each row; for other purposes than training its logits.
  void predict(Graph& g, ValueId x) const;

 private:
  // With multi-token prediction (mtp.cpp): the losses of the next token and of further ones.
  void predict_several(Graph& g, ValueId state) const;
  // The state from which a module predicts, [rows, hidden], of the state before it and the
  // embedding of `tokens` in the table `words`.
  ValueId next_state(Graph& g, ValueId state, ValueId tokens, ValueId words,
                     std::int64_t module) const;
};

// Next-token prediction, and that of further tokens if the model has it.
std::span<const Loss> next_token_losses(const ModelConfig& model);

}  // namespace trireme
