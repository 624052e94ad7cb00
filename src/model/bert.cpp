// BERT (Devlin et al. 2018), with post-norm as in the original or pre-norm as in Megatron.
// Two losses: prediction of masked words, and of the order of the two segments (Lan et al.
// 2019).
#include "base/error.h"
#include "model/builder.h"

namespace trireme {
namespace {

class BertBuilder final : public Builder {
 public:
  using Builder::Builder;

  std::unique_ptr<Graph> embedding() const override {
    auto graph = new_graph();
    Graph& g = *graph;
    const std::int64_t h = m_.hidden_size;
    const VocabTable words = word_table();
    const ValueId tokens = rows_input(g, BatchInput::tokens);
    const ValueId table = words.parameter(g, tp_);
    ValueId positions = no_value, position_table = no_value, types = no_value,
            type_table = no_value;
    if (m_.position == PositionEncoding::learned) {
      positions = rows_input(g, BatchInput::positions);
      position_table = Builder::table(g, "embedding.position.weight", {m_.max_positions, h});
    }
    if (m_.token_types) {
      types = rows_input(g, BatchInput::segments);
      type_table = Builder::table(g, "embedding.token_type.weight", {2, h});
    }
    ValueId x =
        VocabEmbedding{words}(g, tp_, tokens, table, positions, position_table, types, type_table);
    if (post_norm()) x = norm(g, x, "embedding.norm");
    if (dropout(m_.hidden_dropout) > 0) {
      x = ops::add(g, no_value, x, sample_ids(g), site(embedding_site), seq_);
    }
    g.set_output(x);
    return graph;
  }

  std::unique_ptr<Graph> block(const BlockKind& kind) const override {
    return post_norm() ? post_norm_block() : pre_norm_block(kind, false);
  }

  std::unique_ptr<Graph> head() const override {
    auto graph = new_graph();
    Graph& g = *graph;
    const ValueId input = activations(g);
    const ValueId own = post_norm() ? input : norm(g, input, "final_norm");
    // The heads select single rows of a sequence, and are computed identically on all ranks.
    const ValueId x = tp_.splits_rows() ? ops::gather_rows(g, own, tp_.group(), tp_.rank) : own;
    if (m_.order_head) order_head(g, x);
    masked_head(g, x);
    return graph;
  }

 private:
  bool post_norm() const { return m_.norm_placement == NormPlacement::post; }

  // norm(x + attention(x)), then norm(y + mlp(y)).
  std::unique_ptr<Graph> post_norm_block() const {
    auto graph = new_graph();
    Graph& g = *graph;
    const ValueId x = activations(g);
    const ValueId ids = any_dropout() ? sample_ids(g) : no_value;
    const ValueId attended = attention(g, x, ids, false);
    const ValueId y = add_norm(g, x, attended, "mlp_norm", ids, attention_out_site).normed;
    g.set_output(add_norm(g, y, mlp(g, y), "output_norm", ids, mlp_out_site).normed);
    return graph;
  }

  // Heads are small: every tensor-parallel rank computes them in full, except the vocabulary.
  ValueId dense(Graph& g, ValueId x, const std::string& name, std::int64_t out) const {
    const ValueId weight = normal(g, name + ".weight", {out, m_.hidden_size});
    return ops::linear(g, x, weight, zeros(g, name + ".bias", {out}));
  }

  // Uses the first position of each sequence.
  void order_head(Graph& g, ValueId x) const {
    const Shape sequences = {options_.batch};
    const ValueId first = ops::gather(g, x, g.batch(BatchInput::first_rows, DType::i32, sequences));
    const ValueId pooled =
        ops::activation(g, dense(g, first, "pooler", m_.hidden_size), ActivationKind::tanh);
    const ValueId logits = dense(g, pooled, "order_head", 2);
    if (options_.purpose != Purpose::training) {
      g.set_result(logits, ResultOutput::order_logits);
      return;
    }
    const ValueId labels = g.batch(BatchInput::order_labels, DType::i32, sequences);
    g.set_result(ops::cross_entropy(g, logits, labels, no_value, 2), ResultOutput::order_loss);
  }

  // Computed for the predicted rows, or for all rows.
  void masked_head(Graph& g, ValueId x) const {
    const bool training = options_.purpose == Purpose::training;
    std::int64_t rows = rows_;
    if (training && options_.predictions > 0) {
      rows = options_.batch * std::min(options_.predictions, seq_);
      x = ops::gather(g, x, g.batch(BatchInput::predicted_rows, DType::i32, {rows}));
    }
    const ValueId d =
        ops::activation(g, dense(g, x, "masked_head.dense", m_.hidden_size), activation_rule());
    const ValueId n = norm(g, d, "masked_head.norm", true);
    const VocabTable words = head_table();
    const ValueId table = words.parameter(g, tp_);
    const ValueId bias = words.bias(g, tp_, "masked_head.bias");
    if (training) {
      const ValueId targets = g.batch(BatchInput::targets, DType::i32, {rows});
      const ValueId weights = g.batch(BatchInput::loss_weights, DType::f32, {rows});
      TensorParallel all_rows = tp_;
      all_rows.sequence_parallel = false;
      VocabCrossEntropy{words, options_.logits_bytes}(g, all_rows, n, table, targets, weights,
                                                      bias);
    } else {
      g.set_result(ops::linear(g, n, table, bias), ResultOutput::logits);
    }
  }
};

std::unique_ptr<Builder> make(const ModelConfig& model, const BuildOptions& options, bool dropout) {
  if (options.purpose == Purpose::decoding) {
    fail_input(
        "model.family = {:?} predicts masked tokens and cannot generate text; `trireme score` "
        "writes its logits",
        model.family);
  }
  return std::make_unique<BertBuilder>(model, options, dropout);
}

std::span<const Loss> losses(const ModelConfig& model) {
  static constexpr Loss both[] = {word_loss,
                                  {ResultOutput::order_loss, LossUnit::sample, "order_loss",
                                   "valid_order_loss", "sop loss", "sop loss validation", "order"}};
  return std::span(both).first(model.order_head ? 2 : 1);
}

}  // namespace

const ArchitectureDefinition encoder_architecture{make, losses};

}  // namespace trireme
