// GPT and Llama: one function per figure of the paper.
#include "model/gpt.h"

#include <cmath>

namespace trireme {

ValueId GptBuilder::embed(Graph& g) const {
  const ValueId tokens = rows_input(g, BatchInput::tokens);
  return embed(g, tokens, word_table().parameter(g, tp_));
}

ValueId GptBuilder::embed(Graph& g, ValueId tokens, ValueId table) const {
  ValueId positions = no_value, position_table = no_value;
  if (m_.position == PositionEncoding::learned) {
    positions = rows_input(g, BatchInput::positions);
    position_table =
        Builder::table(g, "embedding.position.weight", {m_.max_positions, m_.hidden_size});
  }
  ValueId x = VocabEmbedding{word_table()}(g, tp_, tokens, table, positions, position_table);
  const double width = static_cast<double>(m_.hidden_size);
  x = scaled(g, x, m_.embedding_multiplier * (m_.scale_embedding ? std::sqrt(width) : 1));
  if (m_.embedding_norm) x = norm(g, x, "embedding.norm");
  if (dropout(m_.hidden_dropout) > 0) {
    x = ops::add(g, no_value, x, sample_ids(g), site(embedding_site), seq_);
  }
  return x;
}

void GptBuilder::predict(Graph& g, ValueId x) const {
  const bool trains = options_.purpose == Purpose::training;
  const ValueId state = norm(g, x, "final_norm");
  if (trains && m_.mtp_layers > 0) return predict_several(g, state);
  const ValueId normed = scaled(g, state, m_.logit_multiplier);
  const VocabTable words = head_table();
  const ValueId table = words.parameter(g, tp_);
  if (trains) {
    const ValueId targets = rows_input(g, BatchInput::targets);
    const ValueId weights = g.batch(BatchInput::loss_weights, DType::f32, {rows_});
    VocabCrossEntropy{words, options_.logits_bytes, m_.logit_soft_cap}(g, tp_, normed, table,
                                                                       targets, weights);
  } else {
    const ValueId logits = ops::linear(g, normed, table, no_value);
    g.set_result(m_.logit_soft_cap > 0 ? ops::soft_cap(g, logits, m_.logit_soft_cap) : logits,
                 ResultOutput::logits);
  }
}

std::unique_ptr<Graph> GptBuilder::embedding() const {
  auto graph = new_graph();
  graph->set_output(embed(*graph));
  return graph;
}

BlockKind GptBuilder::block_kind(std::int64_t layer) const {
  BlockKind kind{.experts = m_.moe.experts_in(layer),
                 .linear = m_.linear_in_layer(layer),
                 .attention = m_.attention_in_layer(layer),
                 .mlp = m_.mlp_in_layer(layer)};
  if (kind.linear || !kind.attention) return kind;
  kind.window = m_.attention_window == 0 || m_.window_in_layer(layer);
  kind.positions = m_.position != PositionEncoding::rope || m_.rope_in_layer(layer);
  return kind;
}

std::unique_ptr<Graph> GptBuilder::block(const BlockKind& kind) const {
  if (!kind.attention || !kind.mlp) return single_part_block(kind, true);
  return m_.norm_placement == NormPlacement::output ? output_norm_block(kind, true)
                                                    : pre_norm_block(kind, true);
}

std::unique_ptr<Graph> GptBuilder::head() const {
  auto graph = new_graph();
  predict(*graph, activations(*graph));
  return graph;
}

std::span<const Loss> next_token_losses(const ModelConfig& model) {
  constexpr auto further = [](const char* metric, const char* scalar, const char* word) {
    return Loss{ResultOutput::token_loss, LossUnit::further_token, metric, "", scalar, "", word};
  };
  static constexpr Loss all[] = {word_loss, further("mtp_1_loss", "mtp_1 loss", "mtp_1"),
                                 further("mtp_2_loss", "mtp_2 loss", "mtp_2"),
                                 further("mtp_3_loss", "mtp_3 loss", "mtp_3")};
  static_assert(std::size(all) == most_losses);
  return std::span(all).first(1 + static_cast<std::size_t>(model.mtp_layers));
}

namespace {

std::unique_ptr<Builder> make(const ModelConfig& model, const BuildOptions& options, bool dropout) {
  return std::make_unique<GptBuilder>(model, options, dropout);
}

}  // namespace

const ArchitectureDefinition decoder_architecture{make, next_token_losses};

}  // namespace trireme
