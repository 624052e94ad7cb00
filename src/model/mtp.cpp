// Multi-token prediction (DeepSeek-AI 2024, arXiv:2412.19437, section 2.2): modules in a row, each
// of which predicts the token after the one that the module before it predicts. As in
// Megatron-Core, a module reads and passes on normalized states, and its block is of the kind of
// the last layer.
#include "graph/insert.h"
#include "model/gpt.h"

namespace trireme {

ValueId GptBuilder::next_state(Graph& g, ValueId state, ValueId tokens, ValueId words,
                               std::int64_t module) const {
  const std::string name = fmt::format("mtp.{}.", module);
  GptBuilder own = *this;
  own.first_site_ = static_cast<std::uint32_t>(module) * sites_of_layer;
  // A projection of both side by side, whose halves are added.
  const auto half = [&](ValueId x, const char* which) {
    return SharedLinear{name + which + "_proj", m_.hidden_size, m_.hidden_size, hidden_std()}(
        g, tp_, norm(g, x, name + which + "_norm"));
  };
  const ValueId embedded = half(own.embed(g, tokens, words), "embedding");
  const ValueId joined = ops::add(g, half(state, "state"), embedded, no_value, {}, seq_);
  const auto block = own.block(block_kind(m_.num_layers - 1));
  return norm(g, insert_segment(g, *block, joined, name), name + "final_norm");
}

// The tokens that a module reads are the targets of the prediction before its own.
void GptBuilder::predict_several(Graph& g, ValueId state) const {
  const bool evaluates = !dropout_;
  const Shape all = {(1 + m_.mtp_layers) * rows_};
  const ValueId table = head_table().parameter(g, tp_);
  const ValueId targets = g.batch(BatchInput::targets, DType::i32, all);
  const ValueId weights = g.batch(BatchInput::loss_weights, DType::f32, all);
  const ValueId losses = g.new_value(g.accumulate(), evaluates ? Shape{rows_} : all);
  g.set_result(losses, ResultOutput::token_loss);
  const auto part = [&](ValueId of, std::int64_t k) { return ops::slice(g, of, k * rows_, rows_); };
  const auto predict = [&](std::int64_t k) {
    // A value of its own, whatever the factor is: logits are made of slices of its rows, whose
    // gradients are put together, while the next module's is added.
    const ValueId read = ops::scale(g, state, m_.logit_multiplier);
    VocabCrossEntropy{head_table(), options_.logits_bytes, m_.logit_soft_cap}.write(
        g, tp_, read, table, part(targets, k), part(weights, k), no_value, losses, k * rows_);
  };
  predict(0);
  if (evaluates) {
    // Only the next token counts, but the parameters are those of the training graph.
    const auto trained = GptBuilder(m_, options_, true).head();
    for (std::size_t i = g.parameters().size(); i < trained->parameters().size(); ++i)
      g.parameter(trained->parameters()[i]);
    return;
  }
  const ValueId words = m_.tie_embeddings ? table : word_table().parameter(g, tp_);
  for (std::int64_t module = 0; module < m_.mtp_layers; ++module) {
    state = next_state(g, state, part(targets, module), words, module);
    predict(module + 1);
  }
}

}  // namespace trireme
