// The mapping between our tensors and those of a Hugging Face model, built module by module.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "config/rotary.h"
#include "formats/huggingface/names.h"

namespace trireme {

// Collects the mapping of one model. `ours` and `theirs` are names of tensors or modules, in memory
// and in the files.
class NameTable {
 public:
  explicit NameTable(const ModelConfig& model) : m_(model) {}

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

  // Linear attention. Ours has for each key head its query, key and values, and in another tensor
  // the rates b, then a, of its values. Theirs orders the channels of the convolution as queries,
  // keys and values of all heads; its projections are `in_parts` ordered alike, or else as ours,
  // with the gates behind the values.
  void linear_attention(const std::string& ours, const std::string& theirs, bool in_parts) {
    const std::int64_t groups = m_.linear_key_heads, heads = m_.linear_value_heads;
    const std::int64_t key = m_.linear_key_head_dim, keys = groups * key;
    const std::int64_t value = heads / groups * m_.linear_value_head_dim, values = groups * value;
    const std::int64_t h = m_.hidden_size, width = m_.linear_conv_width;
    const std::int64_t channels = 2 * keys + values, own = 2 * key + value;
    const std::size_t qkv = mapping_.add_ours({ours + "qkv.weight", {channels, h}});
    const std::size_t gate = mapping_.add_ours({ours + "gate.weight", {values, h}});
    const std::size_t conv = mapping_.add_ours({ours + "conv.weight", {channels, width}});
    const auto by_channels = [&](std::size_t our, std::size_t their) {
      for (std::int64_t g = 0; g < groups; ++g) {
        mapping_.link(our, g * own, their, g * key, key);
        mapping_.link(our, g * own + key, their, keys + g * key, key);
        mapping_.link(our, g * own + 2 * key, their, 2 * keys + g * value, value);
      }
    };
    const auto their = [&](const char* name, const Shape& shape) {
      return mapping_.add_theirs({theirs + name, shape});
    };
    if (in_parts) {
      by_channels(qkv, their("in_proj_qkv.weight", {channels, h}));
      mapping_.link(gate, 0, their("in_proj_z.weight", {values, h}), 0, values);
      const std::size_t rates = mapping_.add_ours({ours + "rates.weight", {2 * heads, h}});
      const std::size_t b = their("in_proj_b.weight", {heads, h}),
                        a = their("in_proj_a.weight", {heads, h});
      for (std::int64_t g = 0, each = heads / groups; g < groups; ++g) {
        mapping_.link(rates, 2 * g * each, b, g * each, each);
        mapping_.link(rates, (2 * g + 1) * each, a, g * each, each);
      }
    } else {
      const std::size_t all = their("in_proj_qkvz.weight", {channels + values, h});
      for (std::int64_t g = 0; g < groups; ++g) {
        mapping_.link(qkv, g * own, all, g * (own + value), own);
        mapping_.link(gate, g * value, all, g * (own + value) + own, value);
      }
      linear(ours + "rates", theirs + "in_proj_ba", 2 * heads, h, false);
    }
    by_channels(conv, their("conv1d.weight", {channels, 1, width}));
    same(ours + "a_log", theirs + "A_log", {heads});
    same(ours + "dt_bias", theirs + "dt_bias", {heads});
    same(ours + "norm.weight", theirs + "norm.weight", {m_.linear_value_head_dim});
    linear(ours + "out", theirs + "out_proj", h, values, false);
  }

  // Mamba-2. Ours has for each group its C, its B and its values (x); theirs the channels x, B and
  // C of all groups, in one projection behind the gates and before the time steps.
  void mamba(const std::string& ours, const std::string& theirs) {
    const std::int64_t groups = m_.linear_key_heads, heads = m_.linear_value_heads;
    const std::int64_t key = m_.linear_key_head_dim, keys = groups * key, h = m_.hidden_size;
    const std::int64_t value = heads / groups * m_.linear_value_head_dim, values = groups * value;
    const std::int64_t channels = 2 * keys + values, own = 2 * key + value;
    const auto by_channels = [&](const std::string& name, const Shape& shape, std::size_t their,
                                 std::int64_t first) {
      const std::size_t our = mapping_.add_ours({ours + name, shape});
      for (std::int64_t g = 0; g < groups; ++g) {
        mapping_.link(our, g * own, their, first + values + keys + g * key, key);
        mapping_.link(our, g * own + key, their, first + values + g * key, key);
        mapping_.link(our, g * own + 2 * key, their, first + g * value, value);
      }
    };
    const std::size_t all =
        mapping_.add_theirs({theirs + "in_proj.weight", {values + channels + heads, h}});
    mapping_.link(mapping_.add_ours({ours + "gate.weight", {values, h}}), 0, all, 0, values);
    by_channels("qkv.weight", {channels, h}, all, values);
    mapping_.link(mapping_.add_ours({ours + "rates.weight", {heads, h}}), 0, all, values + channels,
                  heads);
    const std::int64_t width = m_.linear_conv_width;
    by_channels("conv.weight", {channels, width},
                mapping_.add_theirs({theirs + "conv1d.weight", {channels, 1, width}}), 0);
    if (m_.linear_conv_bias)
      by_channels("conv.bias", {channels},
                  mapping_.add_theirs({theirs + "conv1d.bias", {channels}}), 0);
    same(ours + "a_log", theirs + "A_log", {heads});
    same(ours + "dt_bias", theirs + "dt_bias", {heads});
    same(ours + "skip", theirs + "D", {heads});
    same(ours + "norm.weight", theirs + "norm.weight", {values});
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

  // A layer's experts, concatenated in ours: up projection of each, behind the gate if there is
  // one, and down projections.
  void experts(const std::string& ours, const std::string& theirs,
               const HuggingFaceExpertNames& names) {
    const std::int64_t count = m_.moe.num_experts, inner = m_.moe.ffn_hidden_size;
    const std::int64_t hidden = m_.hidden_size, each = (has_gate(m_) ? 2 : 1) * inner;
    const std::size_t up = mapping_.add_ours({ours + "up.weight", {count * each, hidden}});
    const std::size_t down = mapping_.add_ours({ours + "down.weight", {count * hidden, inner}});
    for (std::int64_t e = 0; e < count; ++e) {
      const std::string name = fmt::format("{}{}.", theirs, e);
      const auto part = [&](const char* which, const Shape& shape) {
        return mapping_.add_theirs({name + which + ".weight", shape});
      };
      if (has_gate(m_)) mapping_.link(up, e * each, part(names.gate, {inner, hidden}), 0, inner);
      mapping_.link(up, (e + 1) * each - inner, part(names.up, {inner, hidden}), 0, inner);
      mapping_.link(down, e * hidden, part(names.down, {hidden, inner}), 0, hidden);
    }
  }

  // Same for fused experts, which are stored alike: ours flattens the first two dimensions to rows.
  void fused_experts(const std::string& ours, const std::string& up, const std::string& down) {
    const std::int64_t count = m_.moe.num_experts, inner = m_.moe.ffn_hidden_size;
    const std::int64_t hidden = m_.hidden_size;
    mapping_.add({ours + "up.weight", {count * 2 * inner, hidden}},
                 {up, {count, 2 * inner, hidden}});
    mapping_.add({ours + "down.weight", {count * hidden, inner}}, {down, {count, hidden, inner}});
  }

  // The experts of a layer as gpt-oss and Llama 4 store them, with any biases. Ours has in one
  // tensor of biases those of gate, up and the way down of each expert.
  void joint_experts(const std::string& ours, const std::string& theirs,
                     const HuggingFaceExpertNames& names) {
    const std::int16_t parts = names.take_turns() ? 2 : 1;
    const std::int64_t count = m_.moe.num_experts, inner = m_.moe.ffn_hidden_size;
    const std::int64_t hidden = m_.hidden_size;
    const auto their = [&](const char* name, const Shape& shape, std::int16_t turns) {
      return NamedTensor{theirs + name, shape, true, false, turns, static_cast<int>(count)};
    };
    mapping_.add({ours + "up.weight", {count * 2 * inner, hidden}},
                 their("gate_up_proj", {count, hidden, 2 * inner}, parts));
    mapping_.add({ours + "down.weight", {count * hidden, inner}},
                 their("down_proj", {count, inner, hidden}, 1));
    if (!m_.moe.linear_bias) return;
    const std::int64_t each = 2 * inner + hidden;
    const std::size_t biases = mapping_.add_ours({ours + "bias", {count * each}});
    const std::size_t up =
        mapping_.add_theirs(their("gate_up_proj_bias", {count, 2 * inner}, parts));
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

}  // namespace trireme
