// Latent attention (DeepSeek-AI 2024, arXiv:2405.04434, 2412.19437): keys and values of all heads
// are computed from a low-rank latent per position, and optionally the queries too.
#include "model/builder.h"

namespace trireme {

LatentAttributes Builder::latent_shape(std::int64_t heads) const {
  LatentAttributes a{heads, m_.head_dim, m_.qk_rope_head_dim, m_.value_dim()};
  if (tp_.leaves > 0) a.leaves = {.count = tp_.local_leaves(), .group = tp_.group()};
  return a;
}

ValueId Builder::latent_norm(Graph& g, ValueId x, const std::string& name,
                             std::int64_t width) const {
  using Init = ParameterSpec::Init;
  const Init init = m_.zero_centered_norms ? Init::zeros : Init::ones;
  ParameterSpec weight{name + ".weight", {width}, {width}, init, 0, false};
  weight.partial_gradient = tp_.splits_rows();
  const double eps = m_.latent_norm_eps > 0 ? m_.latent_norm_eps : m_.norm_eps;
  return ops::norm(g, x, g.parameter(std::move(weight)), no_value, NormKind::rms_norm, eps,
                   m_.zero_centered_norms);
}

// Up projections are sharded by heads; down projections apply to the rows between layers. The
// rotary part comes first in queries and keys: it is at the same place in each head, so that the
// key part shared by all heads can be rotated in every one of them.
ValueId Builder::latent_heads(Graph& g, ValueId x, const LatentAttributes& own,
                              const std::string& name) const {
  const std::int64_t hidden = m_.hidden_size, queries = m_.num_heads * m_.head_dim;
  const std::int64_t up = m_.num_heads * (m_.qk_nope_head_dim + m_.v_head_dim);
  const double std = hidden_std();
  const auto down = [&](const char* which, std::int64_t out) {
    return SharedLinear{name + which, hidden, out, std}(g, tp_, x);
  };
  ValueId query = x;
  std::int64_t query_in = hidden;
  if (m_.q_lora_rank > 0) {
    query_in = m_.q_lora_rank;
    query = latent_norm(g, down(".query_down", query_in), name + ".query_norm", query_in);
  }
  using Clip = ParameterSpec::Clip;
  query = ColumnLinear{name + ".query",
                       query_in,
                       queries,
                       false,
                       std,
                       1,
                       {{Clip::query_and_key, own.rope_dim}, {Clip::query, own.plain_dim()}}}(
      g, tp_, query);
  const ValueId latent =
      latent_norm(g, down(".kv_down", m_.kv_lora_rank), name + ".kv_norm", m_.kv_lora_rank);
  const ValueId kv =
      ColumnLinear{name + ".kv",
                   m_.kv_lora_rank,
                   up,
                   false,
                   std,
                   1,
                   {{Clip::key, own.plain_dim()}, {Clip::nothing, own.value_dim}}}(g, tp_, latent);
  const ValueId key_rope = all_rows(g, tp_, down(".key_rope", m_.qk_rope_head_dim));
  return ops::latent_heads(g, query, kv, key_rope, own);
}

}  // namespace trireme
