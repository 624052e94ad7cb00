// Tensor mapping tables, one function per kind of model.
#include "formats/huggingface/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "config/rotary.h"

namespace trireme {
namespace {

// Prefix of the (canonical) names of BERT's pooler.
constexpr std::string_view pooler = "bert.pooler.";

class Table {
 public:
  explicit Table(const ModelConfig& model) : m_(model) {}

  // A tensor stored identically on both sides.
  void same(const std::string& ours, const std::string& theirs, const Shape& shape) {
    mapping_.add({ours, shape}, {theirs, shape});
  }
  // A tensor without counterpart in ours that theirs requires.
  void zeros(const std::string& theirs, const Shape& shape) {
    mapping_.add_theirs({theirs, shape, false, true});
  }
  void norm(const std::string& ours, const std::string& theirs) {
    same(ours + ".weight", theirs + ".weight", {m_.hidden_size});
    if (m_.norm == NormType::layer_norm) same(ours + ".bias", theirs + ".bias", {m_.hidden_size});
  }
  void linear(const std::string& ours, const std::string& theirs, std::int64_t out, std::int64_t in,
              bool bias) {
    same(ours + ".weight", theirs + ".weight", {out, in});
    if (bias) same(ours + ".bias", theirs + ".bias", {out});
  }
  // GPT-2's Conv1D: a linear layer stored as [in, out].
  void conv1d(const std::string& ours, const std::string& theirs, std::int64_t out,
              std::int64_t in) {
    mapping_.add({ours + ".weight", {out, in}}, {theirs + ".weight", {in, out}, true});
    same(ours + ".bias", theirs + ".bias", {out});
  }

  std::int64_t query_width() const { return m_.num_heads * m_.head_dim; }
  std::int64_t key_width() const { return m_.num_kv_heads * m_.head_dim; }
  // Weights of the QK norms, in head order.
  void qk_norms(const std::string& ours, const std::string& theirs) {
    const bool all = m_.qk_norm_over == NormSpan::all_heads;
    same(ours + "query_norm.weight", theirs + "q_norm.weight", {all ? query_width() : m_.head_dim});
    same(ours + "key_norm.weight", theirs + "k_norm.weight", {all ? key_width() : m_.head_dim});
  }
  Shape qkv_shape(bool weight) const {
    const std::int64_t rows = query_width() + 2 * key_width();
    return weight ? Shape{rows, m_.hidden_size} : Shape{rows};
  }

  // Maps our rows to three parts of theirs, each starting at a row of some tensor.
  struct Part {
    std::size_t tensor;
    std::int64_t row;
  };
  void link_qkv(std::size_t ours, const Part& query, const Part& key, const Part& value,
                bool turns_neighbors = false) {
    const std::int64_t d = m_.head_dim, queries = m_.num_heads / m_.num_kv_heads * d;
    const auto link_heads = [&](std::int64_t row, const Part& to, std::int64_t first,
                                std::int64_t rows) {
      if (!turns_neighbors) return mapping_.link(ours, row, to.tensor, to.row + first, rows);
      for (std::int64_t head = 0; head < rows; head += d)
        link_turned_head(ours, row + head, to.tensor, to.row + first + head);
    };
    for (std::int64_t group = 0; group < m_.num_kv_heads; ++group) {
      const std::int64_t row = group * (queries + 2 * d);
      link_heads(row, query, group * queries, queries);
      link_heads(row + queries, key, group * d, d);
      mapping_.link(ours, row + queries + d, value.tensor, value.row + group * d, d);
    }
  }
  // Queries, keys and values as three blocks of one linear layer.
  void blocked_linear_qkv(const std::string& ours, const std::string& theirs, bool bias,
                          bool turns_neighbors) {
    for (const bool weight : {true, false}) {
      if (!weight && !bias) continue;
      const std::string suffix = weight ? ".weight" : ".bias";
      const std::size_t our = mapping_.add_ours({ours + suffix, qkv_shape(weight)});
      const std::size_t their = mapping_.add_theirs({theirs + suffix, qkv_shape(weight)});
      link_qkv(our, {their, 0}, {their, query_width()}, {their, query_width() + key_width()},
               turns_neighbors);
    }
  }
  // Queries, keys and values as three blocks of one Conv1D.
  void blocked_qkv(const std::string& ours, const std::string& theirs) {
    for (const bool weight : {true, false}) {
      const std::string suffix = weight ? ".weight" : ".bias";
      const Shape shape = qkv_shape(weight);
      const std::size_t our = mapping_.add_ours({ours + suffix, shape});
      const std::size_t their =
          mapping_.add_theirs(weight ? NamedTensor{theirs + suffix, {shape[1], shape[0]}, true}
                                     : NamedTensor{theirs + suffix, shape});
      link_qkv(our, {their, 0}, {their, query_width()}, {their, query_width() + key_width()});
    }
  }
  // Queries, keys and values as three linear layers.
  void separate_qkv(const std::string& ours, const std::string& query, const std::string& key,
                    const std::string& value, bool bias, bool turns_neighbors = false) {
    for (const bool weight : {true, false}) {
      if (!weight && !bias) continue;
      const std::string suffix = weight ? ".weight" : ".bias";
      const std::size_t our = mapping_.add_ours({ours + suffix, qkv_shape(weight)});
      const auto part = [&](const std::string& name, std::int64_t width) {
        const Shape shape = weight ? Shape{width, m_.hidden_size} : Shape{width};
        return Part{mapping_.add_theirs({name + suffix, shape}), 0};
      };
      link_qkv(our, part(query, query_width()), part(key, key_width()), part(value, key_width()),
               turns_neighbors);
    }
  }
  // Queries, each head followed by its gate, keys and values as three linear layers.
  void gated_qkv(const std::string& ours, const std::string& theirs, bool bias) {
    const std::int64_t d = m_.head_dim, per_group = m_.num_heads / m_.num_kv_heads;
    for (const bool weight : {true, false}) {
      if (!weight && !bias) continue;
      const std::string suffix = weight ? ".weight" : ".bias";
      const auto shape = [&](std::int64_t rows) {
        return weight ? Shape{rows, m_.hidden_size} : Shape{rows};
      };
      const std::size_t qkv = mapping_.add_ours({ours + "qkv" + suffix, qkv_shape(weight)});
      const std::size_t gate = mapping_.add_ours({ours + "gate" + suffix, shape(query_width())});
      const auto their = [&](const char* name, std::int64_t rows) {
        return mapping_.add_theirs({theirs + name + suffix, shape(rows)});
      };
      const std::size_t query = their("q_proj", 2 * query_width());
      const std::size_t key = their("k_proj", key_width()), value = their("v_proj", key_width());
      for (std::int64_t head = 0; head < m_.num_heads; ++head) {
        const std::int64_t group = head / per_group;
        mapping_.link(qkv, (head + 2 * group) * d, query, 2 * head * d, d);
        mapping_.link(gate, head * d, query, (2 * head + 1) * d, d);
      }
      for (std::int64_t group = 0; group < m_.num_kv_heads; ++group) {
        const std::int64_t row = ((group + 1) * per_group + 2 * group) * d;
        mapping_.link(qkv, row, key, group * d, d);
        mapping_.link(qkv, row + d, value, group * d, d);
      }
    }
  }

  // Linear attention. Ours has for each key head its query, key and values; theirs also its gates,
  // and orders the channels of the convolution as queries, keys and values of all heads.
  void linear_attention(const std::string& ours, const std::string& theirs) {
    const std::int64_t groups = m_.linear_key_heads, heads = m_.linear_value_heads;
    const std::int64_t key = m_.linear_key_head_dim, keys = groups * key;
    const std::int64_t value = heads / groups * m_.linear_value_head_dim, values = groups * value;
    const std::int64_t h = m_.hidden_size, width = m_.linear_conv_width;
    const std::int64_t channels = 2 * keys + values, own = 2 * key + value;
    const std::size_t qkv = mapping_.add_ours({ours + "qkv.weight", {channels, h}});
    const std::size_t gate = mapping_.add_ours({ours + "gate.weight", {values, h}});
    const std::size_t conv = mapping_.add_ours({ours + "conv.weight", {channels, width}});
    const std::size_t all =
        mapping_.add_theirs({theirs + "in_proj_qkvz.weight", {channels + values, h}});
    const std::size_t their_conv =
        mapping_.add_theirs({theirs + "conv1d.weight", {channels, 1, width}});
    for (std::int64_t g = 0; g < groups; ++g) {
      mapping_.link(qkv, g * own, all, g * (own + value), own);
      mapping_.link(gate, g * value, all, g * (own + value) + own, value);
      mapping_.link(conv, g * own, their_conv, g * key, key);
      mapping_.link(conv, g * own + key, their_conv, keys + g * key, key);
      mapping_.link(conv, g * own + 2 * key, their_conv, 2 * keys + g * value, value);
    }
    linear(ours + "rates", theirs + "in_proj_ba", 2 * heads, h, false);
    same(ours + "a_log", theirs + "A_log", {heads});
    same(ours + "dt_bias", theirs + "dt_bias", {heads});
    same(ours + "norm.weight", theirs + "norm.weight", {m_.linear_value_head_dim});
    linear(ours + "out", theirs + "out_proj", h, values, false);
  }

  // Two of their linear layers, concatenated by rows in ours.
  void stacked(const std::string& ours, const std::string& first, const std::string& second,
               std::int64_t out, std::int64_t in, bool bias) {
    for (const bool weight : {true, false}) {
      if (!weight && !bias) continue;
      const std::string suffix = weight ? ".weight" : ".bias";
      const std::size_t our =
          mapping_.add_ours({ours + suffix, weight ? Shape{2 * out, in} : Shape{2 * out}});
      std::int64_t row = 0;
      for (const std::string& name : {first, second}) {
        const std::size_t their =
            mapping_.add_theirs({name + suffix, weight ? Shape{out, in} : Shape{out}});
        mapping_.link(our, row, their, 0, out);
        row += out;
      }
    }
  }

  // Two square linear layers without biases, side by side in theirs.
  void beside(const std::string& first, const std::string& second, const std::string& theirs) {
    const std::int64_t h = m_.hidden_size;
    const std::size_t their = mapping_.add_theirs({theirs + ".weight", {h, 2 * h}, true});
    mapping_.link(mapping_.add_ours({first + ".weight", {h, h}, true}), 0, their, 0, h);
    mapping_.link(mapping_.add_ours({second + ".weight", {h, h}, true}), 0, their, h, h);
  }

  // A layer's experts, concatenated in ours: gate and up projection of each, and down projections.
  void experts(const std::string& ours, const std::string& theirs,
               const HuggingFaceExpertNames& names) {
    const std::int64_t count = m_.moe.num_experts, inner = m_.moe.ffn_hidden_size;
    const std::int64_t hidden = m_.hidden_size;
    const std::size_t up = mapping_.add_ours({ours + "up.weight", {count * 2 * inner, hidden}});
    const std::size_t down = mapping_.add_ours({ours + "down.weight", {count * hidden, inner}});
    for (std::int64_t e = 0; e < count; ++e) {
      const std::string name = fmt::format("{}{}.", theirs, e);
      const auto part = [&](const char* which, const Shape& shape) {
        return mapping_.add_theirs({name + which + ".weight", shape});
      };
      mapping_.link(up, 2 * e * inner, part(names.gate, {inner, hidden}), 0, inner);
      mapping_.link(up, (2 * e + 1) * inner, part(names.up, {inner, hidden}), 0, inner);
      mapping_.link(down, e * hidden, part(names.down, {hidden, inner}), 0, hidden);
    }
  }

  // Same for fused experts, which are stored alike: ours flattens the first two dimensions to rows.
  void fused_experts(const std::string& ours, const std::string& theirs) {
    const std::int64_t count = m_.moe.num_experts, inner = m_.moe.ffn_hidden_size;
    const std::int64_t hidden = m_.hidden_size;
    mapping_.add({ours + "up.weight", {count * 2 * inner, hidden}},
                 {theirs + "gate_up_proj", {count, 2 * inner, hidden}});
    mapping_.add({ours + "down.weight", {count * hidden, inner}},
                 {theirs + "down_proj", {count, hidden, inner}});
  }

  // The experts of a layer as gpt-oss stores them, with their biases. Ours has in one tensor of
  // biases those of gate, up and the way down of each expert.
  void interleaved_experts(const std::string& ours, const std::string& theirs) {
    const std::int64_t count = m_.moe.num_experts, inner = m_.moe.ffn_hidden_size;
    const std::int64_t hidden = m_.hidden_size;
    const auto their = [&](const char* name, const Shape& shape, std::int16_t turns) {
      return NamedTensor{theirs + name, shape, true, false, turns, static_cast<int>(count)};
    };
    mapping_.add({ours + "up.weight", {count * 2 * inner, hidden}},
                 their("gate_up_proj", {count, hidden, 2 * inner}, 2));
    mapping_.add({ours + "down.weight", {count * hidden, inner}},
                 their("down_proj", {count, inner, hidden}, 1));
    if (!m_.moe.linear_bias) return;
    const std::int64_t each = 2 * inner + hidden;
    const std::size_t biases = mapping_.add_ours({ours + "bias", {count * each}});
    const std::size_t up = mapping_.add_theirs(their("gate_up_proj_bias", {count, 2 * inner}, 2));
    const std::size_t down = mapping_.add_theirs(their("down_proj_bias", {count, hidden}, 1));
    for (std::int64_t e = 0; e < count; ++e) {
      mapping_.link(biases, e * each, up, e * 2 * inner, 2 * inner);
      mapping_.link(biases, e * each + 2 * inner, down, e * hidden, hidden);
    }
  }

  // Latent attention. Theirs stores the RoPE part of a head last, as adjacent pairs; ours stores it
  // first, as two halves.
  void latent_attention(const std::string& ours, const std::string& theirs) {
    const std::int64_t h = m_.hidden_size, plain = m_.qk_nope_head_dim, rope = m_.qk_rope_head_dim;
    const std::int64_t rank = m_.q_lora_rank, in = rank > 0 ? rank : h, kv = m_.kv_lora_rank;
    if (rank > 0) {
      linear(ours + "query_down", theirs + "q_a_proj", rank, h, false);
      same(ours + "query_norm.weight", theirs + "q_a_layernorm.weight", {rank});
    }
    const NamedTensor query{ours + "query.weight", {query_width(), in}};
    const std::size_t our_query = mapping_.add_ours(query);
    const std::size_t their_query = mapping_.add_theirs(
        {theirs + (rank > 0 ? "q_b_proj.weight" : "q_proj.weight"), query.shape});
    for (std::int64_t head = 0; head < m_.num_heads; ++head) {
      const std::int64_t row = head * m_.head_dim;
      link_pairs(our_query, row, their_query, row + plain, rope / 2);
      mapping_.link(our_query, row + rope, their_query, row, plain);
    }
    const std::size_t down = mapping_.add_ours({ours + "kv_down.weight", {kv, h}});
    const std::size_t key_rope = mapping_.add_ours({ours + "key_rope.weight", {rope, h}});
    const std::size_t both =
        mapping_.add_theirs({theirs + "kv_a_proj_with_mqa.weight", {kv + rope, h}});
    mapping_.link(down, 0, both, 0, kv);
    link_pairs(key_rope, 0, both, kv, rope / 2);
    same(ours + "kv_norm.weight", theirs + "kv_a_layernorm.weight", {kv});
    linear(ours + "kv", theirs + "kv_b_proj", m_.num_heads * (plain + m_.v_head_dim), kv, false);
    linear(ours + "out", theirs + "o_proj", h, m_.num_heads * m_.v_head_dim, false);
  }

  TensorMapping take() {
    check_mapping(mapping_);
    return std::move(mapping_);
  }

 private:
  // Rows rotated by RoPE: ours has the first halves of all pairs, then the second halves.
  void link_pairs(std::size_t ours, std::int64_t ours_row, std::size_t theirs,
                  std::int64_t theirs_row, std::int64_t pairs) {
    for (std::int64_t i = 0; i < 2 * pairs; ++i)
      mapping_.link(ours, ours_row + i, theirs, theirs_row + 2 * (i % pairs) + i / pairs, 1);
  }

  // A head whose first part is rotated by RoPE.
  void link_turned_head(std::size_t ours, std::int64_t ours_row, std::size_t theirs,
                        std::int64_t theirs_row) {
    const std::int64_t pairs = rotary_dimensions(m_) / 2, turned = 2 * pairs;
    link_pairs(ours, ours_row, theirs, theirs_row, pairs);
    if (turned < m_.head_dim)
      mapping_.link(ours, ours_row + turned, theirs, theirs_row + turned, m_.head_dim - turned);
  }

  const ModelConfig& m_;
  TensorMapping mapping_;
};

TensorMapping map_gpt2(const ModelConfig& m, const HuggingFaceKind&, ExpertStorage) {
  Table table(m);
  const std::int64_t h = m.hidden_size, ffn = m.ffn_hidden_size;
  table.same("embedding.word.weight", "transformer.wte.weight", {m.vocab_size, h});
  table.same("embedding.position.weight", "transformer.wpe.weight", {m.max_positions, h});
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer) {
    const std::string ours = fmt::format("layers.{}.", layer);
    const std::string theirs = fmt::format("transformer.h.{}.", layer);
    table.norm(ours + "input_norm", theirs + "ln_1");
    table.blocked_qkv(ours + "attention.qkv", theirs + "attn.c_attn");
    table.conv1d(ours + "attention.out", theirs + "attn.c_proj", h, h);
    table.norm(ours + "mlp_norm", theirs + "ln_2");
    table.conv1d(ours + "mlp.up", theirs + "mlp.c_fc", ffn, h);
    table.conv1d(ours + "mlp.down", theirs + "mlp.c_proj", h, ffn);
  }
  table.norm("final_norm", "transformer.ln_f");
  if (!m.tie_embeddings) table.same("head.weight", "lm_head.weight", {m.vocab_size, h});
  return table.take();
}

// Rows of queries, keys and values are interleaved by head on both sides.
TensorMapping map_bloom(const ModelConfig& m, const HuggingFaceKind&, ExpertStorage) {
  Table table(m);
  const std::int64_t h = m.hidden_size, ffn = m.ffn_hidden_size;
  table.same("embedding.word.weight", "transformer.word_embeddings.weight", {m.vocab_size, h});
  table.norm("embedding.norm", "transformer.word_embeddings_layernorm");
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer) {
    const std::string ours = fmt::format("layers.{}.", layer);
    const std::string theirs = fmt::format("transformer.h.{}.", layer);
    table.norm(ours + "input_norm", theirs + "input_layernorm");
    table.linear(ours + "attention.qkv", theirs + "self_attention.query_key_value", 3 * h, h, true);
    table.linear(ours + "attention.out", theirs + "self_attention.dense", h, h, true);
    table.norm(ours + "mlp_norm", theirs + "post_attention_layernorm");
    table.linear(ours + "mlp.up", theirs + "mlp.dense_h_to_4h", ffn, h, true);
    table.linear(ours + "mlp.down", theirs + "mlp.dense_4h_to_h", h, ffn, true);
  }
  table.norm("final_norm", "transformer.ln_f");
  if (!m.tie_embeddings) table.same("head.weight", "lm_head.weight", {m.vocab_size, h});
  return table.take();
}

// An MoE layer of a Llama relative: router, experts, optional shared expert. In memory all kinds
// have the same names.
void map_experts(Table& table, const ModelConfig& m, const std::string& ours,
                 const std::string& theirs, const HuggingFaceExpertNames& own,
                 ExpertStorage storage) {
  const bool fused = storage == ExpertStorage::fused && !own.interleaved;
  const std::int64_t h = m.hidden_size, shared = m.moe.shared_ffn_hidden_size;
  const std::string sparse = theirs + (fused ? HuggingFaceExpertNames{}.layer : own.layer);
  const std::string router = sparse + (fused ? HuggingFaceExpertNames{}.router : own.router);
  table.same(ours + "mlp.router.weight", router + ".weight", {m.moe.num_experts, h});
  if (m.moe.router_bias)
    table.same(ours + "mlp.router.logit_bias", router + ".bias", {m.moe.num_experts});
  if (m.moe.expert_bias) {
    table.same(ours + "mlp.router.bias", sparse + "gate.e_score_correction_bias",
               {m.moe.num_experts});
  }
  const std::string our_experts = ours + "mlp.experts.", experts = sparse + "experts.";
  if (own.interleaved)
    table.interleaved_experts(our_experts, experts);
  else if (fused)
    table.fused_experts(our_experts, experts);
  else
    table.experts(our_experts, experts, own);
  if (shared == 0) return;
  const std::string both = sparse + own.shared;
  table.stacked(ours + "mlp.shared.up", both + "gate_proj", both + "up_proj", shared, h, false);
  table.linear(ours + "mlp.shared.down", both + "down_proj", h, shared, false);
  if (m.moe.shared_gate)
    table.same(ours + "mlp.shared.gate.weight", sparse + "shared_expert_gate.weight", {1, h});
}

// QKV and output projection of a Llama relative.
void map_attention(Table& table, const ModelConfig& m, const std::string& ours,
                   const std::string& theirs, const HuggingFaceLayerNames& names) {
  if (m.is_latent()) return table.latent_attention(ours, theirs);
  if (m.attention_gate) {
    table.gated_qkv(ours, theirs, m.qkv_bias);
  } else if (names.qkv_together) {
    table.blocked_linear_qkv(ours + "qkv", theirs + "qkv_proj", m.qkv_bias, names.turns_neighbors);
  } else {
    table.separate_qkv(ours + "qkv", theirs + "q_proj", theirs + "k_proj", theirs + "v_proj",
                       m.qkv_bias, names.turns_neighbors);
  }
  if (m.qk_norm) table.qk_norms(ours, theirs);
  if (m.attention_sinks) table.same(ours + "sinks", theirs + "sinks", {m.num_heads});
  table.linear(ours + "out", theirs + "o_proj", m.hidden_size, table.query_width(), m.bias);
}

void map_mlp(Table& table, const ModelConfig& m, const std::string& ours, const std::string& theirs,
             const HuggingFaceLayerNames& names) {
  const std::int64_t h = m.hidden_size, ffn = m.ffn_hidden_size;
  if (!has_gate(m))
    table.linear(ours + "up", theirs + "up_proj", ffn, h, m.bias);
  else if (names.gate_up_together)
    table.linear(ours + "up", theirs + "gate_up_proj", 2 * ffn, h, m.bias);
  else
    table.stacked(ours + "up", theirs + "gate_proj", theirs + "up_proj", ffn, h, m.bias);
  table.linear(ours + "down", theirs + "down_proj", h, ffn, m.bias);
}

// A block like those of `layer`.
void map_block(Table& table, const ModelConfig& m, const HuggingFaceKind& kind,
               ExpertStorage storage, std::int64_t layer, const std::string& ours,
               const std::string& theirs) {
  const HuggingFaceLayerNames& names = kind.layers;
  const bool both = m.norm_placement == NormPlacement::both,
             after = both || m.norm_placement == NormPlacement::output;
  if (both || !after) table.norm(ours + "input_norm", theirs + "input_layernorm");
  if (m.linear_in_layer(layer))
    table.linear_attention(ours + "linear_attention.", theirs + "linear_attn.");
  else
    map_attention(table, m, ours + "attention.", theirs + "self_attn.", names);
  if (!after) table.norm(ours + "mlp_norm", theirs + "post_attention_layernorm");
  if (after) table.norm(ours + "attention_out_norm", theirs + names.attention_out_norm);
  if (both) table.norm(ours + "mlp_norm", theirs + names.mlp_norm);
  if (after) table.norm(ours + "mlp_out_norm", theirs + names.mlp_out_norm);
  if (m.moe.in_layer(layer))
    map_experts(table, m, ours, theirs, kind.experts, storage);
  else
    map_mlp(table, m, ours + "mlp.", theirs + "mlp.", names);
}

// Name of a module of multi-token prediction.
std::string module_name(const ModelConfig& m, const HuggingFaceKind& kind, std::int64_t module) {
  return kind.layers.module_apart ? "mtp." : fmt::format("model.layers.{}.", m.num_layers + module);
}

void map_module(Table& table, const ModelConfig& m, const HuggingFaceKind& kind,
                ExpertStorage storage, std::int64_t module) {
  const std::string ours = fmt::format("mtp.{}.", module), theirs = module_name(m, kind, module);
  const bool apart = kind.layers.module_apart;
  table.norm(ours + "embedding_norm", theirs + (apart ? "pre_fc_norm_embedding" : "enorm"));
  table.norm(ours + "state_norm", theirs + (apart ? "pre_fc_norm_hidden" : "hnorm"));
  table.beside(ours + "embedding_proj", ours + "state_proj", theirs + (apart ? "fc" : "eh_proj"));
  map_block(table, m, kind, storage, m.num_layers - 1, ours, theirs + (apart ? "layers.0." : ""));
  table.norm(ours + "final_norm", theirs + (apart ? "norm" : "shared_head.norm"));
}

// Also maps Llama's relatives, dense and MoE.
TensorMapping map_llama(const ModelConfig& m, const HuggingFaceKind& kind, ExpertStorage storage) {
  Table table(m);
  const std::int64_t h = m.hidden_size;
  table.same("embedding.word.weight", "model.embed_tokens.weight", {m.vocab_size, h});
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer) {
    map_block(table, m, kind, storage, layer, fmt::format("layers.{}.", layer),
              fmt::format("model.layers.{}.", layer));
  }
  for (std::int64_t module = 0; module < m.mtp_layers; ++module)
    map_module(table, m, kind, storage, module);
  table.norm("final_norm", "model.norm");
  if (!m.tie_embeddings) table.same("head.weight", "lm_head.weight", {m.vocab_size, h});
  return table.take();
}

// Post-norm: `mlp_norm` is between attention and MLP, as in other models, and `output_norm` after
// the MLP. Pre-norm: as in other models.
TensorMapping map_bert(const ModelConfig& m, const HuggingFaceKind&, ExpertStorage) {
  const bool post_norm = m.norm_placement == NormPlacement::post;
  Table table(m);
  const std::int64_t h = m.hidden_size, ffn = m.ffn_hidden_size;
  const std::string embeddings = "bert.embeddings.";
  table.same("embedding.word.weight", embeddings + "word_embeddings.weight", {m.vocab_size, h});
  table.same("embedding.position.weight", embeddings + "position_embeddings.weight",
             {m.max_positions, h});
  const std::string types = embeddings + "token_type_embeddings.weight";
  if (m.token_types)
    table.same("embedding.token_type.weight", types, {2, h});
  else
    table.zeros(types, {2, h});
  if (post_norm) table.norm("embedding.norm", embeddings + "LayerNorm");
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer) {
    const std::string ours = fmt::format("layers.{}.", layer);
    const std::string theirs = fmt::format("bert.encoder.layer.{}.", layer);
    const std::string attention = theirs + "attention.self.";
    if (!post_norm) table.norm(ours + "input_norm", theirs + "attention.ln");
    table.separate_qkv(ours + "attention.qkv", attention + "query", attention + "key",
                       attention + "value", true);
    table.linear(ours + "attention.out", theirs + "attention.output.dense", h, h, true);
    table.norm(ours + "mlp_norm", theirs + (post_norm ? "attention.output.LayerNorm" : "ln"));
    table.linear(ours + "mlp.up", theirs + "intermediate.dense", ffn, h, true);
    table.linear(ours + "mlp.down", theirs + "output.dense", h, ffn, true);
    if (post_norm) table.norm(ours + "output_norm", theirs + "output.LayerNorm");
  }
  if (!post_norm) table.norm("final_norm", "bert.encoder.ln");
  if (m.order_head) table.linear("pooler", "bert.pooler.dense", h, h, true);
  table.linear("masked_head.dense", "cls.predictions.transform.dense", h, h, true);
  table.norm("masked_head.norm", "cls.predictions.transform.LayerNorm");
  // With an untied head, the model adds the decoder's bias instead of cls.predictions.bias.
  const std::string bias =
      m.tie_embeddings ? "cls.predictions.bias" : "cls.predictions.decoder.bias";
  table.same("masked_head.bias", bias, {m.vocab_size});
  if (!m.tie_embeddings)
    table.same("head.weight", "cls.predictions.decoder.weight", {m.vocab_size, h});
  if (m.order_head) table.linear("order_head", "cls.seq_relationship", 2, h, true);
  return table.take();
}

constexpr std::string_view gpt2_buffers[] = {".attn.bias", ".attn.masked_bias"};
constexpr std::string_view bert_buffers[] = {".position_ids", ".token_type_ids"};
constexpr std::string_view llama_buffers[] = {".rotary_emb.inv_freq"};
constexpr HuggingFaceCopy gpt2_copies[] = {{"lm_head.weight", "transformer.wte.weight"}};
constexpr HuggingFaceCopy bloom_copies[] = {
    {"lm_head.weight", "transformer.word_embeddings.weight"}};
constexpr HuggingFaceCopy llama_copies[] = {{"lm_head.weight", "model.embed_tokens.weight"}};
constexpr HuggingFaceCopy bert_copies[] = {
    {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
    {"cls.predictions.decoder.bias", "cls.predictions.bias"},
    {"cls.predictions.bias", "cls.predictions.decoder.bias", false},
};

}  // namespace

const HuggingFaceNames gpt2_names{"transformer.", gpt2_buffers, gpt2_copies, map_gpt2};
const HuggingFaceNames bloom_names{"transformer.", llama_buffers, bloom_copies, map_bloom};
const HuggingFaceNames llama_names{"model.", llama_buffers, llama_copies, map_llama};
const HuggingFaceNames bert_names{"bert.", bert_buffers, bert_copies, map_bert};

TensorMapping huggingface_mapping(const HuggingFaceModel& model, ExpertStorage experts) {
  return model.kind->names->map(model.model, *model.kind, experts);
}

// Each module comes with its own copy of the word tables.
std::vector<std::pair<std::string, std::string>> module_copies(const HuggingFaceModel& model) {
  const ModelConfig& m = model.model;
  std::vector<std::pair<std::string, std::string>> copies;
  if (model.kind->layers.module_apart) return copies;
  for (std::int64_t module = 0; module < m.mtp_layers; ++module) {
    const std::string name = module_name(m, *model.kind, module),
                      words = "model.embed_tokens.weight";
    copies.emplace_back(name + "embed_tokens.weight", words);
    copies.emplace_back(name + "shared_head.head.weight",
                        m.tie_embeddings ? words : "lm_head.weight");
  }
  return copies;
}

TensorMapping huggingface_export_mapping(const HuggingFaceModel& model) {
  TensorMapping mapping = huggingface_mapping(model);
  for (const auto& [copy, original] : module_copies(model)) {
    const auto same = std::ranges::find(mapping.theirs, original, &NamedTensor::name);
    const auto theirs = static_cast<std::size_t>(same - mapping.theirs.begin());
    const RowLink link = *std::ranges::find(mapping.links, theirs, &RowLink::theirs);
    const std::size_t added = mapping.add_theirs({copy, same->shape});
    mapping.link(link.ours, 0, added, 0, link.rows);
  }
  return mapping;
}

std::string canonical_huggingface_name(const HuggingFaceKind& kind, const std::string& name) {
  std::string out = name;
  const auto replace_end = [&](std::string_view from, std::string_view to) {
    if (out.ends_with(from)) out.replace(out.size() - from.size(), from.size(), to);
  };
  replace_end("LayerNorm.gamma", "LayerNorm.weight");
  replace_end("LayerNorm.beta", "LayerNorm.bias");
  const std::string prefix = kind.names->prefix;
  const bool is_outside =
      out.starts_with("lm_head.") || out.starts_with("cls.") || out.starts_with("mtp.");
  return is_outside || out.starts_with(prefix) ? out : prefix + out;
}

bool is_left_out_of_huggingface(const HuggingFaceModel& model, std::string_view name) {
  if (!model.model.order_head && name.starts_with(pooler)) return true;
  return std::ranges::any_of(model.kind->names->buffers,
                             [&](std::string_view end) { return name.ends_with(end); });
}

std::string fit_to_names(HuggingFaceModel& model, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const auto any_begins = [&](std::string_view with) {
    return std::ranges::any_of(names,
                               [&](const std::string& one) { return one.starts_with(with); });
  };
  const bool has_module = any_begins(module_name(model.model, *model.kind, 0));
  if (model.kind->layers.module_apart && has_module) model.model.mtp_layers = 1;
  if (model.model.mtp_layers > 0 && !has_module) {
    model.model.mtp_layers = 0;
    return "the files contain no multi-token prediction modules although config.json lists some, "
           "as in files saved by transformers (model.mtp_layers = 0)";
  }
  if (!model.kind->masked_class) return "";
  if (any_begins("cls.seq_relationship.")) return "";
  model.model.order_head = false;
  return fmt::format(
      "the model has no sentence-order head (model.order_head = false){}",
      any_begins(pooler) ? ", and its pooler, which only that head uses, is dropped" : "");
}

std::string tied_huggingface_tensor(const HuggingFaceModel& model, std::string_view name) {
  for (const auto& [copy, original] : module_copies(model))
    if (copy == name) return original;
  for (const HuggingFaceCopy& one : model.kind->names->copies)
    if (one.copy == name && one.tied == model.model.tie_embeddings)
      return std::string(one.original);
  return "";
}

}  // namespace trireme
