// Tensor mapping tables, one function per kind of model.
#include "formats/huggingface/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "formats/huggingface/name_table.h"

namespace trireme {
namespace {

// Prefix of the (canonical) names of BERT's pooler.
constexpr std::string_view pooler = "bert.pooler.";

TensorMapping map_gpt2(const ModelConfig& m, const HuggingFaceKind&, ExpertStorage) {
  NameTable table(m);
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
  NameTable table(m);
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

// An MLP of `width` of a Llama relative.
void map_mlp(NameTable& table, const ModelConfig& m, std::int64_t width, const std::string& ours,
             const std::string& theirs, const HuggingFaceLayerNames& names) {
  const std::int64_t h = m.hidden_size;
  if (!has_gate(m))
    table.linear(ours + "up", theirs + "up_proj", width, h, m.bias);
  else if (names.gate_up_together)
    table.linear(ours + "up", theirs + names.gate_up, 2 * width, h, m.bias);
  else
    table.stacked(ours + "up", theirs + "gate_proj", theirs + "up_proj", width, h, m.bias);
  table.linear(ours + "down", theirs + names.mlp_down, h, width, m.bias);
}

// An MoE layer of a Llama relative: router, experts, optional shared expert. In memory all kinds
// have the same names.
void map_experts(NameTable& table, const ModelConfig& m, const std::string& ours,
                 const std::string& theirs, const HuggingFaceKind& kind, ExpertStorage storage) {
  using Joint = HuggingFaceExpertNames::Joint;
  const HuggingFaceExpertNames& own = kind.experts;
  const bool joint = own.joint != Joint::no;
  const bool fused = storage == ExpertStorage::fused && !joint;
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
  if (own.joint == Joint::by_rows)
    table.fused_experts(our_experts, sparse + "input_linear.weight",
                        sparse + "output_linear.weight");
  else if (joint)
    table.joint_experts(our_experts, experts, own);
  else if (fused)
    table.fused_experts(our_experts, experts + "gate_up_proj", experts + "down_proj");
  else
    table.experts(our_experts, experts, own);
  if (shared == 0) return;
  if (own.shared_like_mlp)
    return map_mlp(table, m, shared, ours + "mlp.shared.", theirs + kind.layers.mlp, kind.layers);
  const std::string both = sparse + own.shared;
  if (has_gate(m))
    table.stacked(ours + "mlp.shared.up", both + "gate_proj", both + "up_proj", shared, h, false);
  else
    table.linear(ours + "mlp.shared.up", both + "up_proj", shared, h, false);
  table.linear(ours + "mlp.shared.down", both + "down_proj", h, shared, false);
  if (m.moe.shared_gate)
    table.same(ours + "mlp.shared.gate.weight", sparse + "shared_expert_gate.weight", {1, h});
}

// QKV and output projection of a Llama relative.
void map_attention(NameTable& table, const ModelConfig& m, const std::string& ours,
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

// A block like those of `layer`.
void map_block(NameTable& table, const ModelConfig& m, const HuggingFaceKind& kind,
               ExpertStorage storage, std::int64_t layer, const std::string& ours,
               const std::string& theirs) {
  const HuggingFaceLayerNames& names = kind.layers;
  const bool both = m.norm_placement == NormPlacement::both,
             after = both || m.norm_placement == NormPlacement::output;
  if (both || !after) table.norm(ours + "input_norm", theirs + "input_layernorm");
  if (m.linear_in_layer(layer) && m.linear_kind == LinearKind::mamba2)
    table.mamba(ours + "linear_attention.", theirs + "mamba.");
  else if (m.linear_in_layer(layer))
    table.linear_attention(ours + "linear_attention.", theirs + "linear_attn.", names.linear_parts);
  else
    map_attention(table, m, ours + "attention.", theirs + "self_attn.", names);
  if (!after) table.norm(ours + "mlp_norm", theirs + "post_attention_layernorm");
  if (after) table.norm(ours + "attention_out_norm", theirs + names.attention_out_norm);
  if (both) table.norm(ours + "mlp_norm", theirs + names.mlp_norm);
  if (after) table.norm(ours + "mlp_out_norm", theirs + names.mlp_out_norm);
  if (m.moe.in_layer(layer))
    map_experts(table, m, ours, theirs, kind, storage);
  else
    map_mlp(table, m, m.ffn_hidden_size, ours + "mlp.", theirs + names.mlp, names);
}

// Name of a module of multi-token prediction.
std::string module_name(const ModelConfig& m, const HuggingFaceKind& kind, std::int64_t module) {
  return kind.layers.module_apart ? "mtp." : fmt::format("model.layers.{}.", m.num_layers + module);
}

void map_module(NameTable& table, const ModelConfig& m, const HuggingFaceKind& kind,
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
  NameTable table(m);
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

// A layer has one norm, and one part, which is called mixer whatever it is.
TensorMapping map_nemotron_h(const ModelConfig& m, const HuggingFaceKind& kind,
                             ExpertStorage storage) {
  NameTable table(m);
  const std::int64_t h = m.hidden_size;
  table.same("embedding.word.weight", "backbone.embeddings.weight", {m.vocab_size, h});
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer) {
    const std::string ours = fmt::format("layers.{}.", layer);
    const std::string theirs = fmt::format("backbone.layers.{}.", layer), mixer = theirs + "mixer.";
    const bool mlp = m.mlp_in_layer(layer);
    table.norm(ours + (mlp ? "mlp_norm" : "input_norm"), theirs + "norm");
    if (m.moe.in_layer(layer))
      map_experts(table, m, ours, theirs, kind, storage);
    else if (mlp)
      map_mlp(table, m, m.ffn_hidden_size, ours + "mlp.", mixer, kind.layers);
    else if (m.linear_in_layer(layer))
      table.mamba(ours + "linear_attention.", mixer);
    else
      map_attention(table, m, ours + "attention.", mixer, kind.layers);
  }
  table.norm("final_norm", "backbone.norm_f");
  table.same("head.weight", "lm_head.weight", {m.vocab_size, h});
  return table.take();
}

// Post-norm: `mlp_norm` is between attention and MLP, as in other models, and `output_norm` after
// the MLP. Pre-norm: as in other models.
TensorMapping map_bert(const ModelConfig& m, const HuggingFaceKind&, ExpertStorage) {
  const bool post_norm = m.norm_placement == NormPlacement::post;
  NameTable table(m);
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
const HuggingFaceNames nemotron_h_names{"backbone.", {}, {}, map_nemotron_h};
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
