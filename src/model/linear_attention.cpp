// Linear attention: a gated delta net (Yang et al. 2024, arXiv:2412.06464) as in Qwen3-Next, or
// Mamba-2 (Dao and Gu 2024, arXiv:2405.21060) as in Granite 4; and the gates that attention layers
// of Qwen3-Next have.
#include <algorithm>
#include <numeric>

#include "model/builder.h"

namespace trireme {
namespace {

using Init = ParameterSpec::Init;

// This rank's part of a parameter whose rows belong to heads.
ParameterSpec of_heads(const TensorParallel& tp, const std::string& name, std::int64_t rows,
                       std::int64_t columns, Init init) {
  const std::int64_t local = tp.share(rows);
  const auto shape = [&](std::int64_t count) {
    return columns > 0 ? Shape{count, columns} : Shape{count};
  };
  ParameterSpec spec{"linear_attention." + name, shape(local), shape(rows), init, 0, false};
  spec.split = tp.size > 1;
  if (spec.split) spec.pieces = {{0, tp.rank * local, local}};
  if (tp.leaves > 0)
    spec.squares_at_once =
        std::gcd(spec.squares_at_once, rows / tp.leaves * std::max<std::int64_t>(1, columns));
  return spec;
}

}  // namespace

ValueId Builder::linear_attention(Graph& g, ValueId x) const {
  const std::int64_t heads = m_.linear_value_heads, values = heads * m_.linear_value_head_dim;
  const std::int64_t batch = options_.batch, per_group = heads / m_.linear_key_heads;
  const bool mamba = m_.linear_kind == LinearKind::mamba2;
  const DeltaRule delta{{batch, whole_seq_},    tp_.share(m_.linear_key_heads), per_group,
                        m_.linear_key_head_dim, m_.linear_value_head_dim,       mamba};
  const ShortConvRule conv{{batch, whole_seq_}, delta.qkv_cols(), m_.linear_conv_width};
  const std::int64_t channels = conv.channels * tp_.size;
  const auto project = [&](const char* name, std::int64_t out) {
    return ColumnLinear{std::string("linear_attention.") + name, m_.hidden_size, out, false,
                        m_.init_std}(g, tp_, x);
  };
  const auto state = [&](CacheBuffer which, DType dtype, const Shape& shape) {
    return options_.purpose == Purpose::decoding
               ? g.new_value(dtype, shape, Role::cache, static_cast<std::int32_t>(which))
               : no_value;
  };
  const auto of_sequences = [&](BatchInput which) { return g.batch(which, DType::i32, {batch}); };
  ops::SequenceInputs places;
  if (options_.purpose == Purpose::decoding) {
    places.lengths = of_sequences(BatchInput::lengths);
    places.new_tokens = of_sequences(BatchInput::new_tokens);
  } else if (options_.packed_documents) {
    places.first_visible = g.batch(BatchInput::first_visible, DType::i32, {batch * whole_seq_});
  }

  ParameterSpec kernel = of_heads(tp_, "conv.weight", channels, conv.width, Init::normal);
  kernel.init_std = m_.init_std;
  kernel.decay = true;
  const ValueId channel_weights = g.parameter(std::move(kernel));
  const ValueId channel_biases =
      m_.linear_conv_bias ? g.parameter(of_heads(tp_, "conv.bias", channels, 0, Init::zeros))
                          : no_value;
  const ValueId qkv = ops::short_conv(
      g, project("qkv", channels), channel_weights, channel_biases, conv, places,
      state(CacheBuffer::inputs, g.compute(), {batch, conv.width - 1, conv.channels}));
  const ValueId ba = project("rates", (mamba ? 1 : 2) * heads);
  const auto of_each_head = [&](const char* name, Init init) {
    return g.parameter(of_heads(tp_, name, heads, 0, init));
  };
  const ValueId a_log = of_each_head("a_log", Init::log_uniform);
  const ValueId dt_bias = of_each_head("dt_bias", Init::ones);
  const ValueId rates = ops::decay_rates(g, ba, a_log, dt_bias, {delta.groups, per_group, mamba},
                                         mamba ? of_each_head("skip", Init::ones) : no_value);
  const ValueId read =
      ops::delta_rule(g, qkv, rates, delta, places,
                      state(CacheBuffer::state, g.accumulate(),
                            {batch, delta.heads(), delta.key_dim, delta.value_dim}));

  // Mamba-2 has gates before the norm, which spans the heads of a group.
  GateHeadsAttributes gate{{.head_dim = mamba ? per_group * delta.value_dim : delta.value_dim,
                            .silu = true,
                            .norm = true,
                            .eps = m_.norm_eps,
                            .gates_first = mamba}};
  gate.leaves = tp_.leaves > 0 ? tp_.local_leaves() : 0;
  const Shape width = {delta.value_dim};
  ParameterSpec weight{"linear_attention.norm.weight", width, width, Init::ones, 0, false};
  weight.partial_gradient = tp_.size > 1;  // of this rank's heads
  if (mamba) weight = of_heads(tp_, "norm.weight", values, 0, Init::ones);
  const ValueId gated =
      ops::gate_heads(g, read, project("gate", values), g.parameter(std::move(weight)), gate);
  return RowLinear{"linear_attention.out", values, m_.hidden_size, false, deep_std()}(g, tp_,
                                                                                      gated);
}

ValueId Builder::gated_heads(Graph& g, ValueId context, ValueId x, const std::string& name) const {
  const ValueId gate = ColumnLinear{name + ".gate", m_.hidden_size, m_.num_heads * m_.head_dim,
                                    m_.qkv_bias, m_.init_std}(g, tp_, x);
  return ops::gate_heads(g, context, gate, no_value, {{.head_dim = m_.head_dim}});
}

}  // namespace trireme
