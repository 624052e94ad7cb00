// Lists tensor names and shapes as declared in src/model/.
#include "tensors/model_tensors.h"

#include "base/error.h"
#include "config/families.h"

namespace trireme {
namespace {

class List {
 public:
  explicit List(const ModelConfig& model) : m_(model) {}

  void add(const std::string& name, const Shape& shape) { tensors_.push_back({name, shape}); }
  void norm(const std::string& name) {
    add(name + ".weight", {m_.hidden_size});
    if (m_.norm == NormType::layer_norm) add(name + ".bias", {m_.hidden_size});
  }
  void linear(const std::string& name, std::int64_t out, std::int64_t in, bool bias) {
    add(name + ".weight", {out, in});
    if (bias) add(name + ".bias", {out});
  }
  std::vector<NamedTensor> take() { return std::move(tensors_); }

 private:
  const ModelConfig& m_;
  std::vector<NamedTensor> tensors_;
};

// Each expert has the rows of its gate projection, then those of its up projection.
void add_experts(List& list, const ModelConfig& m, const std::string& mlp) {
  const std::int64_t h = m.hidden_size, count = m.moe.num_experts, inner = m.moe.ffn_hidden_size;
  const std::int64_t halves = has_gate(m) ? 2 : 1, shared = m.moe.shared_ffn_hidden_size;
  list.add(mlp + "router.weight", {count, h});
  if (m.moe.expert_bias) list.add(mlp + "router.bias", {count});
  if (m.moe.router_bias) list.add(mlp + "router.logit_bias", {count});
  list.add(mlp + "experts.up.weight", {count * halves * inner, h});
  list.add(mlp + "experts.down.weight", {count * h, inner});
  if (m.moe.linear_bias) list.add(mlp + "experts.bias", {count * (halves * inner + h)});
  if (shared == 0) return;
  list.linear(mlp + "shared.up", halves * shared, h, false);
  list.linear(mlp + "shared.down", h, shared, false);
  if (m.moe.shared_gate) list.add(mlp + "shared.gate.weight", {1, h});
}

// A block like those of layer `number`; `layer` begins its names.
void add_block(List& list, const ModelConfig& m, std::int64_t number, const std::string& layer) {
  const std::int64_t h = m.hidden_size, queries = m.num_heads * m.head_dim;
  const std::int64_t all_heads = queries + 2 * m.num_kv_heads * m.head_dim;
  const bool both = m.norm_placement == NormPlacement::both,
             post = m.norm_placement == NormPlacement::post;
  const bool output = both || m.norm_placement == NormPlacement::output;
  if (both || (!output && !post)) list.norm(layer + "input_norm");
  list.linear(layer + "attention.qkv", all_heads, h, m.qkv_bias);
  if (m.qk_norm) {
    const bool all = m.qk_norm_over == NormSpan::all_heads;
    list.add(layer + "attention.query_norm.weight", {all ? queries : m.head_dim});
    list.add(layer + "attention.key_norm.weight", {all ? m.num_kv_heads * m.head_dim : m.head_dim});
  }
  if (m.attention_sinks) list.add(layer + "attention.sinks", {m.num_heads});
  list.linear(layer + "attention.out", h, queries, m.bias);
  list.norm(layer + (output ? "attention_out_norm" : "mlp_norm"));
  if (both) list.norm(layer + "mlp_norm");
  if (m.moe.in_layer(number)) {
    add_experts(list, m, layer + "mlp.");
  } else {
    list.linear(layer + "mlp.up", (has_gate(m) ? 2 : 1) * m.ffn_hidden_size, h, m.bias);
    list.linear(layer + "mlp.down", h, m.ffn_hidden_size, m.bias);
  }
  if (output) list.norm(layer + "mlp_out_norm");
  if (post) list.norm(layer + "output_norm");
}

void add_module(List& list, const ModelConfig& m, const std::string& module) {
  const std::int64_t h = m.hidden_size;
  list.norm(module + "embedding_norm");
  list.norm(module + "state_norm");
  list.linear(module + "embedding_proj", h, h, false);
  list.linear(module + "state_proj", h, h, false);
  add_block(list, m, m.num_layers - 1, module);
  list.norm(module + "final_norm");
}

}  // namespace

std::vector<NamedTensor> model_tensors(const ModelConfig& m) {
  TRIREME_CHECK(!m.moe.residual && m.moe.experts_by_layer.empty() && !m.is_latent());
  const bool bert = family_of(m).architecture == Architecture::encoder;
  const std::int64_t h = m.hidden_size;
  List list(m);
  list.add("embedding.word.weight", {m.vocab_size, h});
  if (m.position == PositionEncoding::learned)
    list.add("embedding.position.weight", {m.max_positions, h});
  if (bert && m.token_types) list.add("embedding.token_type.weight", {2, h});
  if (m.embedding_norm || m.norm_placement == NormPlacement::post) list.norm("embedding.norm");
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
    add_block(list, m, layer, fmt::format("layers.{}.", layer));
  for (std::int64_t module = 0; module < m.mtp_layers; ++module)
    add_module(list, m, fmt::format("mtp.{}.", module));
  if (m.norm_placement != NormPlacement::post) list.norm("final_norm");
  if (!m.tie_embeddings) list.add("head.weight", {m.vocab_size, h});
  if (!bert) return list.take();
  list.linear("masked_head.dense", h, h, true);
  list.norm("masked_head.norm");
  list.add("masked_head.bias", {m.vocab_size});
  if (m.order_head) {
    list.linear("pooler", h, h, true);
    list.linear("order_head", 2, h, true);
  }
  return list.take();
}

}  // namespace trireme
