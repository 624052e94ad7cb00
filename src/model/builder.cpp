// Parts common to all families: attention, MLP, norms, parameters.
#include "model/builder.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "config/families.h"
#include "config/rotary.h"
#include "config/width.h"
#include "model/rotary.h"

namespace trireme {

Builder::Builder(const ModelConfig& model, const BuildOptions& options, bool dropout)
    : m_(model), options_(options), tp_(options.tensor), dropout_(dropout) {
  whole_seq_ = options.seq > 0 ? options.seq : model.seq_length;
  seq_ = options.context.share(whole_seq_);
  rows_ = options.batch * seq_;
  local_rows_ = tp_.local_rows(rows_);
}

std::unique_ptr<Graph> Builder::pre_norm_block(const BlockKind& kind, bool causal) const {
  const bool both = m_.norm_placement == NormPlacement::both;
  auto graph = new_graph();
  Graph& g = *graph;
  const ValueId x = activations(g);
  const ValueId ids = any_dropout() ? sample_ids(g) : no_value;
  ValueId attended = attention(g, norm(g, x, "input_norm"), ids, causal, kind);
  if (both) attended = norm(g, attended, "attention_out_norm");
  attended = scaled(g, attended, m_.residual_multiplier);
  const auto [sum, normed] = add_norm(g, x, attended, "mlp_norm", ids, attention_out_site);
  ValueId made = mlp_or_experts(g, normed, kind);
  if (both) made = norm(g, made, "mlp_out_norm");
  made = scaled(g, made, m_.residual_multiplier);
  g.set_output(ops::add(g, sum, made, ids, site(mlp_out_site), seq_));
  return graph;
}

std::unique_ptr<Graph> Builder::single_part_block(const BlockKind& kind, bool causal) const {
  auto graph = new_graph();
  Graph& g = *graph;
  const ValueId x = activations(g);
  const ValueId ids = any_dropout() ? sample_ids(g) : no_value;
  const ValueId normed = norm(g, x, kind.attention ? "input_norm" : "mlp_norm");
  const ValueId made =
      kind.attention ? attention(g, normed, ids, causal, kind) : mlp_or_experts(g, normed, kind);
  g.set_output(ops::add(g, x, scaled(g, made, m_.residual_multiplier), ids,
                        site(kind.attention ? attention_out_site : mlp_out_site), seq_));
  return graph;
}

std::unique_ptr<Graph> Builder::output_norm_block(const BlockKind& kind, bool causal) const {
  auto graph = new_graph();
  Graph& g = *graph;
  const ValueId x = activations(g);
  const ValueId ids = any_dropout() ? sample_ids(g) : no_value;
  const ValueId attended = scaled(
      g, norm(g, attention(g, x, ids, causal, kind), "attention_out_norm"), m_.residual_multiplier);
  const ValueId y = ops::add(g, x, attended, ids, site(attention_out_site), seq_);
  const ValueId made =
      scaled(g, norm(g, mlp_or_experts(g, y, kind), "mlp_out_norm"), m_.residual_multiplier);
  g.set_output(ops::add(g, y, made, ids, site(mlp_out_site), seq_));
  return graph;
}

ValueId Builder::normed_heads(Graph& g, ValueId qkv, const HeadShare& own,
                              const std::string& name) const {
  using Init = ParameterSpec::Init;
  HeadNormAttributes a{{own.groups, own.queries_per_group, m_.head_dim, m_.norm_eps}};
  if (m_.qk_l2_norm) {
    a.zero_centered = true;
    const ValueId none = g.constant(ConstantInput::zeros, g.compute(), {m_.head_dim});
    return ops::head_norm(g, qkv, none, none, a);
  }
  a.zero_centered = m_.zero_centered_qk_norms;
  if (tp_.leaves > 0) a.leaves = tp_.local_leaves();
  if (m_.qk_norm_over == NormSpan::all_heads) {
    a.all_heads = true;
    a.all_queries = m_.num_heads;
    a.all_keys = m_.num_kv_heads;
    a.counts_keys = own.copy == 0;
    a.group = tp_.group();
    const HeadWeights weights{name, m_.num_heads, m_.num_kv_heads, m_.head_dim, a.zero_centered};
    const ValueId queries = weights.queries(g, tp_);
    return ops::head_norm(g, qkv, queries, weights.keys(g, tp_), a);
  }
  const auto weight = [&](const char* which) {
    const Init init = a.zero_centered ? Init::zeros : Init::ones;
    ParameterSpec spec{name + which, {m_.head_dim}, {m_.head_dim}, init, 0, false};
    spec.partial_gradient = tp_.size > 1;  // of this rank's heads
    spec.is_qk_norm = true;
    return g.parameter(std::move(spec));
  };
  const ValueId query_weight = weight(".query_norm.weight");
  return ops::head_norm(g, qkv, query_weight, weight(".key_norm.weight"), a);
}

ValueId Builder::heads(Graph& g, ValueId x, const HeadShare& own, const std::string& name,
                       bool positions) const {
  const std::int64_t head_dim = m_.head_dim;
  const ValueId qkv = HeadProjection{name + ".qkv", m_.hidden_size, m_.num_heads, m_.num_kv_heads,
                                     head_dim,      m_.qkv_bias,    hidden_std()}(g, tp_, x);
  return m_.qk_norm || (m_.qk_l2_norm && positions) ? normed_heads(g, qkv, own, name) : qkv;
}

ValueId Builder::scaled_queries(Graph& g, ValueId qkv, const HeadShare& own) const {
  const ValueId factor =
      g.constant(ConstantInput::no_rope_query_factor, g.accumulate(), {rope_positions()});
  return ops::rope(g, qkv, no_value, no_value, rows_input(g, BatchInput::positions),
                   {seq_, own.groups, own.queries_per_group, m_.head_dim, 0, +1}, factor);
}

ValueId Builder::turned_heads(Graph& g, ValueId qkv, const HeadShare& own, bool window) const {
  const std::int64_t rotary_dim = rotary_dimensions(m_);
  const auto table = [&](ConstantInput which, const Shape& shape) {
    return g.constant(which, g.accumulate(), shape);
  };
  const bool local = window && m_.rope_base_local > 0;
  const Shape tables = {rope_positions(), rotary_dim / 2};
  const ValueId cos =
      table(local ? ConstantInput::rope_cos_local : ConstantInput::rope_cos, tables);
  const ValueId sin =
      table(local ? ConstantInput::rope_sin_local : ConstantInput::rope_sin, tables);
  const ValueId factor =
      m_.rope_query_beta > 0 ? table(ConstantInput::query_factor, {rope_positions()}) : no_value;
  return ops::rope(g, qkv, cos, sin, rows_input(g, BatchInput::positions),
                   {seq_, own.groups, own.queries_per_group, m_.head_dim, rotary_dim, +1}, factor);
}

ValueId Builder::sinks(Graph& g, std::int64_t heads, const std::string& name) const {
  if (!m_.attention_sinks) return no_value;
  ParameterSpec spec{
      name + ".sinks", {heads}, {m_.num_heads}, ParameterSpec::Init::zeros, 0, false};
  spec.split = tp_.size > 1;
  if (spec.split) spec.pieces = {{0, tp_.rank * heads, heads}};
  if (tp_.leaves > 0)
    spec.squares_at_once = std::gcd(spec.squares_at_once, m_.num_heads / tp_.leaves);
  return g.parameter(std::move(spec));
}

ValueId Builder::attention(Graph& g, ValueId x, ValueId ids, bool causal, const BlockKind& kind,
                           const std::string& name, std::uint32_t where) const {
  if (kind.linear) return linear_attention(g, x);
  const std::int64_t head_dim = m_.head_dim;
  const HeadShare own = HeadShare::computed(tp_, m_.num_heads, m_.num_kv_heads);
  const std::int64_t groups = own.groups, per_group = own.queries_per_group;
  const LatentAttributes latent = latent_shape(groups * per_group);
  ValueId qkv =
      m_.is_latent() ? latent_heads(g, x, latent, name) : heads(g, x, own, name, kind.positions);
  if (m_.position == PositionEncoding::rope && kind.positions)
    qkv = turned_heads(g, qkv, own, kind.window);
  else if (m_.no_rope_query_beta > 0)
    qkv = scaled_queries(g, qkv, own);
  AttentionAttributes a{};
  a.batch = options_.batch;
  a.seq = whole_seq_;
  a.groups = groups;
  a.queries_per_group = per_group;
  a.head_dim = head_dim;
  a.causal = causal;
  a.scale =
      m_.attention_scale > 0 ? m_.attention_scale : 1 / std::sqrt(static_cast<double>(head_dim));
  a.first_head = tp_.rank * groups * per_group;
  a.dropout = {dropout(m_.attention_dropout), first_site_ + where};
  a.capacity = options_.cache_capacity;
  a.window = kind.window ? m_.attention_window : 0;
  a.chunks = m_.window_chunks;
  a.alibi_heads = m_.position == PositionEncoding::alibi ? m_.num_heads : 0;
  a.soft_cap = m_.attention_soft_cap;
  a.cut = options_.context.cut(whole_seq_);
  a.context_ranks = options_.context.size;
  a.reports_scores = options_.reports_scores && dropout_;
  const ValueId scored = sinks(g, a.heads(), name);
  const auto lengths = [&] { return g.batch(BatchInput::lengths, DType::i32, {options_.batch}); };
  ValueId context;
  if (options_.purpose == Purpose::decoding) {
    const Shape cache = {options_.batch, a.capacity, groups, head_dim};
    context = ops::cached_attention(g, qkv, g.cache(CacheBuffer::key, cache),
                                    g.cache(CacheBuffer::value, cache), lengths(), a, scored);
  } else {
    const bool within = a.window > 0 && a.window < whole_seq_;
    const ValueId first_visible =
        within || options_.packed_documents
            ? g.batch(within ? BatchInput::first_in_window : BatchInput::first_visible, DType::i32,
                      {options_.batch * whole_seq_})
            : no_value;
    if (options_.context.size == 1) {
      // Padding follows everything else, where causal attention does not look anyway.
      context =
          ops::attention(g, qkv, first_visible, ids, a, causal ? no_value : lengths(), scored);
    } else if (options_.context.attention == ContextAttention::ulysses) {
      context =
          ops::ulysses_attention(g, qkv, first_visible, ids, a, options_.context.rank, scored);
    } else if (options_.context.attention == ContextAttention::ring) {
      context = ops::ring_attention(g, qkv, first_visible, ids, a, scored);
    } else {
      context = ops::all_gather_attention(g, qkv, first_visible, ids, a, scored);
    }
  }
  if (m_.is_latent()) context = ops::narrow_heads(g, context, latent);
  if (m_.attention_gate) context = gated_heads(g, context, x, name);
  return RowLinear{name + ".out", m_.num_heads * m_.value_dim(), m_.hidden_size, m_.bias,
                   deep_std()}(g, tp_, context);
}

ValueId Builder::mlp(Graph& g, ValueId x, const std::string& name) const {
  const ActivationRule rule = activation_rule();
  const int blocks = is_gated(rule.kind) ? 2 : 1;
  const ValueId up = ColumnLinear{name + ".up", m_.hidden_size, blocks * m_.ffn_hidden_size,
                                  m_.bias,      hidden_std(),   blocks}(g, tp_, x);
  return RowLinear{name + ".down", m_.ffn_hidden_size, m_.hidden_size, m_.bias, deep_std()}(
      g, tp_, ops::activation(g, up, rule));
}

ValueId Builder::norm(Graph& g, ValueId x, const std::string& name, bool of_all_rows) const {
  const Norm p = norm_parameters(g, name, of_all_rows);
  return ops::norm(g, x, p.weight, p.bias, norm_kind(), m_.norm_eps, m_.zero_centered_norms);
}

ops::SumAndNorm Builder::add_norm(Graph& g, ValueId x, ValueId delta, const std::string& name,
                                  ValueId ids, DropoutSite where) const {
  const Norm p = norm_parameters(g, name, false);
  return ops::add_norm(g, x, delta, p.weight, p.bias, norm_kind(), m_.norm_eps, ids, site(where),
                       seq_, m_.zero_centered_norms);
}

ValueId Builder::scaled(Graph& g, ValueId x, double factor) const {
  return factor == 1 ? x : ops::scale(g, x, factor);
}

VocabTable Builder::word_table() const {
  return {"embedding.word.weight", m_.vocab_size, m_.vocab_multiple, m_.hidden_size, m_.init_std};
}

VocabTable Builder::head_table() const {
  VocabTable table = word_table();
  if (!m_.tie_embeddings) table.name = "head.weight";
  return table;
}

Builder::Norm Builder::norm_parameters(Graph& g, const std::string& name, bool of_all_rows) const {
  using Init = ParameterSpec::Init;
  const Shape shape = {m_.hidden_size};
  const Init init = m_.zero_centered_norms ? Init::zeros : Init::ones;
  ParameterSpec weight{name + ".weight", shape, shape, init, 0, false};
  ParameterSpec bias{name + ".bias", shape, shape, ParameterSpec::Init::zeros, 0, false};
  weight.partial_gradient = bias.partial_gradient = tp_.splits_rows() && !of_all_rows;
  const ValueId w = g.parameter(std::move(weight));
  return {w, norm_kind() == NormKind::rms_norm ? no_value : g.parameter(std::move(bias))};
}

ValueId Builder::normal(Graph& g, const std::string& name, Shape shape) const {
  return g.parameter({name, shape, shape, ParameterSpec::Init::normal, m_.init_std, true});
}

ValueId Builder::table(Graph& g, const std::string& name, Shape shape) const {
  ParameterSpec spec{name, shape, shape, ParameterSpec::Init::normal, m_.init_std, true};
  spec.is_table = true;
  return g.parameter(std::move(spec));
}

ValueId Builder::zeros(Graph& g, const std::string& name, Shape shape) const {
  return g.parameter({name, shape, shape, ParameterSpec::Init::zeros, 0, false});
}

ValueId Builder::sample_ids(Graph& g) const {
  return g.batch(BatchInput::sample_ids, DType::i64, {options_.batch});
}

ValueId Builder::rows_input(Graph& g, BatchInput which) const {
  return g.batch(which, DType::i32, {rows_});
}

bool Builder::any_dropout() const {
  return dropout(m_.hidden_dropout) > 0 || dropout(m_.attention_dropout) > 0;
}

DropoutRule Builder::site(std::uint32_t where) const {
  return {dropout(m_.hidden_dropout), first_site_ + where, tp_.first_row(rows_),
          options_.context.cut(whole_seq_)};
}

NormKind Builder::norm_kind() const {
  switch (m_.norm) {
    case NormType::layer_norm:
      return NormKind::layer_norm;
    case NormType::rms_norm:
      return NormKind::rms_norm;
    case NormType::by_family:
      break;
  }
  fail("internal error: the norm of the model is not resolved");
}

ActivationRule Builder::activation_rule() const {
  ActivationRule rule = activation_of(m_.activation);
  rule.gate_alpha = m_.gate_alpha;
  rule.gate_offset = m_.gate_offset;
  rule.clamp = m_.activation_clamp;
  return rule;
}

ActivationKind activation_of(MlpActivation activation) {
  switch (activation) {
    case MlpActivation::gelu_tanh:
      return ActivationKind::gelu_tanh;
    case MlpActivation::gelu_erf:
      return ActivationKind::gelu_erf;
    case MlpActivation::silu:
      return ActivationKind::silu;
    case MlpActivation::squared_relu:
      return ActivationKind::squared_relu;
    case MlpActivation::swiglu:
      return ActivationKind::swiglu;
    case MlpActivation::geglu:
      return ActivationKind::geglu;
    case MlpActivation::by_family:
      break;
  }
  fail("internal error: the activation of the model is not resolved");
}

double Builder::hidden_std() const {
  return m_.init_std / std::sqrt(width_ratio(m_));
}

double Builder::deep_std() const {
  const double parts = m_.mlp_layers.empty() ? 2 : 1;  // of a layer
  return hidden_std() / std::sqrt(parts * static_cast<double>(m_.num_layers));
}

std::int64_t Builder::rope_positions() const {
  const std::int64_t rows =
      std::max(whole_seq_, options_.purpose == Purpose::decoding ? options_.cache_capacity : 0);
  return rows * (options_.all_lengths ? rotary_rows(m_) : 1);
}

namespace {
std::atomic<const ArchitectureDefinition*> added_architecture = nullptr;
}

void set_added_architecture(const ArchitectureDefinition& architecture) {
  added_architecture = &architecture;
}

const ArchitectureDefinition& architecture_of(const ModelConfig& model) {
  const ArchitectureDefinition* const by_architecture[] = {
      &decoder_architecture, &encoder_architecture, added_architecture};
  const ArchitectureDefinition* const found =
      by_architecture[static_cast<int>(family_of(model).architecture)];
  TRIREME_CHECK(found);
  return *found;
}

}  // namespace trireme
