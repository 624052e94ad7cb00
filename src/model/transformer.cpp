// The model reads like the paper: each function below is one figure of it.
#include "model/transformer.h"

#include <algorithm>
#include <cmath>

#include "graph/autodiff.h"
#include "ops/ops.h"

namespace trireme {
namespace {

// Places within a block that drop independently.
enum DropoutSite : std::uint32_t {
  attention_site,
  attention_out_site,
  mlp_out_site,
  embedding_site
};

NormKind norm_kind(const ModelConfig& m) {
  return m.norm == "rms_norm" ? NormKind::rms_norm : NormKind::layer_norm;
}

ActivationKind activation_kind(const ModelConfig& m) {
  if (m.activation == "gelu_tanh") return ActivationKind::gelu_tanh;
  if (m.activation == "gelu_erf") return ActivationKind::gelu_erf;
  if (m.activation == "silu") return ActivationKind::silu;
  if (m.activation == "squared_relu") return ActivationKind::squared_relu;
  return ActivationKind::swiglu;
}

// Builds the segments of one graph: with dropout for training, without for everything else.
class Builder {
 public:
  Builder(const ModelConfig& model, const BuildOptions& options, bool dropout)
      : m_(model), options_(options), dropout_(dropout) {
    seq_ = options.seq > 0 ? options.seq : model.seq_length;
    rows_ = options.batch * seq_;
  }

  std::unique_ptr<Graph> embedding() const {
    auto graph = std::make_unique<Graph>(options_.compute);
    Graph& g = *graph;
    const ValueId tokens = g.batch(BatchInput::tokens, DType::i32, {rows_});
    const ValueId table = word_table(g, "embedding.word.weight");
    ValueId positions = no_value, position_table = no_value;
    if (m_.position == "learned") {
      positions = g.batch(BatchInput::positions, DType::i32, {rows_});
      position_table = normal(g, "embedding.position.weight", {m_.max_positions, m_.hidden_size});
    }
    ValueId x = ops::embedding(g, tokens, table, positions, position_table);
    if (dropout(m_.hidden_dropout) > 0) {
      x = ops::add(g, no_value, x, sample_ids(g), site(m_.hidden_dropout, embedding_site), seq_);
    }
    g.set_output(x);
    return graph;
  }

  std::unique_ptr<Graph> block() const {
    auto graph = std::make_unique<Graph>(options_.compute);
    Graph& g = *graph;
    const ValueId x = g.segment_input({rows_, m_.hidden_size});
    const ValueId ids = any_dropout() ? sample_ids(g) : no_value;

    const Norm input_norm = norm_parameters(g, "input_norm");
    const ValueId n1 =
        ops::norm(g, x, input_norm.weight, input_norm.bias, norm_kind(m_), m_.norm_eps);
    const ValueId attended = attention(g, n1, ids);

    const Norm mlp_norm = norm_parameters(g, "mlp_norm");
    const auto [sum, n2] =
        ops::add_norm(g, x, attended, mlp_norm.weight, mlp_norm.bias, norm_kind(m_), m_.norm_eps,
                      ids, site(m_.hidden_dropout, attention_out_site));
    const ValueId transformed = mlp(g, n2);
    g.set_output(ops::add(g, sum, transformed, ids, site(m_.hidden_dropout, mlp_out_site), seq_));
    return graph;
  }

  std::unique_ptr<Graph> head() const {
    auto graph = std::make_unique<Graph>(options_.compute);
    Graph& g = *graph;
    const ValueId x = g.segment_input({rows_, m_.hidden_size});
    const Norm final_norm = norm_parameters(g, "final_norm");
    const ValueId n =
        ops::norm(g, x, final_norm.weight, final_norm.bias, norm_kind(m_), m_.norm_eps);
    const ValueId table =
        word_table(g, m_.tie_embeddings ? "embedding.word.weight" : "head.weight");
    if (options_.purpose == Purpose::training) {
      losses(g, n, table);
    } else {
      g.set_result(ops::linear(g, n, table, no_value), ResultOutput::logits);
    }
    return graph;
  }

 private:
  struct Norm {
    ValueId weight, bias;
  };

  // Logits slice by slice, so that the planner can reuse their memory.
  void losses(Graph& g, ValueId n, ValueId table) const {
    const ValueId targets = g.batch(BatchInput::targets, DType::i32, {rows_});
    const ValueId weights = g.batch(BatchInput::loss_weights, DType::f32, {rows_});
    const ValueId loss = g.new_value(g.accumulate(), {rows_});
    g.set_result(loss, ResultOutput::token_loss);
    const std::int64_t row_bytes = padded_vocabulary(m_) * size_of(options_.compute);
    const std::int64_t slices = std::clamp<std::int64_t>(
        (rows_ * row_bytes + options_.logits_bytes - 1) / options_.logits_bytes, 1, rows_);
    const std::int64_t rows_per_slice = (rows_ + slices - 1) / slices;
    for (std::int64_t first = 0; first < rows_; first += rows_per_slice) {
      const std::int64_t rows = std::min(rows_per_slice, rows_ - first);
      const ValueId logits = ops::linear(g, ops::slice(g, n, first, rows), table, no_value);
      const ValueId token_loss =
          ops::cross_entropy(g, logits, ops::slice(g, targets, first, rows),
                             ops::slice(g, weights, first, rows), m_.vocab_size);
      g.place_in(token_loss, loss, first * size_of(g.accumulate()));
    }
  }

  ValueId attention(Graph& g, ValueId x, ValueId ids) const {
    const std::int64_t head_dim = m_.head_dim, groups = m_.num_kv_heads;
    const std::int64_t per_group = m_.num_heads / groups;
    const std::int64_t qkv_width = groups * (per_group + 2) * head_dim;
    const ValueId qkv_weight = normal(g, "attention.qkv.weight", {qkv_width, m_.hidden_size});
    const ValueId qkv_bias = m_.qkv_bias ? zeros(g, "attention.qkv.bias", qkv_width) : no_value;
    ValueId qkv = ops::linear(g, x, qkv_weight, qkv_bias);
    if (m_.position == "rope") {
      const std::int64_t rotary_dim = rotary_dimensions(m_);
      const Shape tables = {rope_positions(), rotary_dim / 2};
      qkv = ops::rope(g, qkv, g.constant(ConstantInput::rope_cos, DType::f32, tables),
                      g.constant(ConstantInput::rope_sin, DType::f32, tables),
                      g.batch(BatchInput::positions, DType::i32, {rows_}),
                      {seq_, groups, per_group, head_dim, rotary_dim, +1});
    }
    AttentionAttributes a{};
    a.batch = options_.batch;
    a.seq = seq_;
    a.groups = groups;
    a.queries_per_group = per_group;
    a.head_dim = head_dim;
    a.causal = true;
    a.scale = 1 / std::sqrt(static_cast<double>(head_dim));
    a.dropout = site(m_.attention_dropout, attention_site);
    a.capacity = options_.cache_capacity;
    ValueId context;
    if (options_.purpose == Purpose::decoding) {
      const Shape cache = {options_.batch, a.capacity, groups, head_dim};
      context = ops::cached_attention(
          g, qkv, g.cache(CacheBuffer::key, cache), g.cache(CacheBuffer::value, cache),
          g.batch(BatchInput::lengths, DType::i32, {options_.batch}), a);
    } else {
      const ValueId first_visible = options_.packed_documents
                                        ? g.batch(BatchInput::first_visible, DType::i32, {rows_})
                                        : no_value;
      context = ops::attention(g, qkv, first_visible, ids, a);
    }
    const ValueId out_weight =
        normal(g, "attention.out.weight", {m_.hidden_size, m_.num_heads * head_dim}, deep_std());
    return ops::linear(g, context, out_weight, bias(g, "attention.out.bias", m_.hidden_size));
  }

  ValueId mlp(Graph& g, ValueId x) const {
    const ActivationKind kind = activation_kind(m_);
    const std::int64_t width = (kind == ActivationKind::swiglu ? 2 : 1) * m_.ffn_hidden_size;
    const ValueId up_weight = normal(g, "mlp.up.weight", {width, m_.hidden_size});
    const ValueId up = ops::linear(g, x, up_weight, bias(g, "mlp.up.bias", width));
    const ValueId activated = ops::activation(g, up, kind);
    const ValueId down_weight =
        normal(g, "mlp.down.weight", {m_.hidden_size, m_.ffn_hidden_size}, deep_std());
    return ops::linear(g, activated, down_weight, bias(g, "mlp.down.bias", m_.hidden_size));
  }

  // Matrices that write into the residual stream start smaller (Megatron, after GPT-2).
  double deep_std() const { return m_.init_std / std::sqrt(2.0 * m_.num_layers); }

  ValueId normal(Graph& g, const char* name, Shape shape, double std = 0) const {
    return g.parameter(
        {name, shape, shape, ParameterSpec::Init::normal, std > 0 ? std : m_.init_std, true});
  }
  ValueId zeros(Graph& g, const char* name, std::int64_t width) const {
    return g.parameter({name, {width}, {width}, ParameterSpec::Init::zeros, 0, false});
  }
  ValueId bias(Graph& g, const char* name, std::int64_t width) const {
    return m_.bias ? zeros(g, name, width) : no_value;
  }
  ValueId word_table(Graph& g, const char* name) const {
    return g.parameter({name,
                        {padded_vocabulary(m_), m_.hidden_size},
                        {m_.vocab_size, m_.hidden_size},
                        ParameterSpec::Init::normal,
                        m_.init_std,
                        true});
  }
  Norm norm_parameters(Graph& g, const std::string& name) const {
    const Shape shape = {m_.hidden_size};
    const ValueId weight =
        g.parameter({name + ".weight", shape, shape, ParameterSpec::Init::ones, 0, false});
    if (norm_kind(m_) == NormKind::rms_norm) return {weight, no_value};
    return {weight, zeros(g, (name + ".bias").c_str(), m_.hidden_size)};
  }

  ValueId sample_ids(Graph& g) const {
    return g.batch(BatchInput::sample_ids, DType::i64, {options_.batch});
  }
  float dropout(double probability) const {
    return dropout_ ? static_cast<float>(probability) : 0.f;
  }
  bool any_dropout() const {
    return dropout(m_.hidden_dropout) > 0 || dropout(m_.attention_dropout) > 0;
  }
  DropoutAttributes site(double probability, DropoutSite where) const {
    return {dropout(probability), where};
  }
  std::int64_t rope_positions() const {
    return std::max(seq_, options_.purpose == Purpose::decoding ? options_.cache_capacity : 0);
  }
  static std::int64_t rotary_dimensions(const ModelConfig& m) {
    return static_cast<std::int64_t>(m.rope_percent * static_cast<double>(m.head_dim)) / 2 * 2;
  }

  const ModelConfig& m_;
  const BuildOptions& options_;
  bool dropout_;
  std::int64_t seq_, rows_;
};

// Adds an instance of a template, with its parameters under the given prefix; parameters that the
// model already has by that name are shared.
void instantiate(StageDefinition& stage, int segment, std::int32_t layer,
                 const std::string& prefix) {
  SegmentInstance instance{segment, layer, {}};
  for (const ParameterSpec& spec : stage.templates[segment].eval->parameters()) {
    const std::string name = prefix + spec.name;
    const auto known = std::find_if(stage.parameters.begin(), stage.parameters.end(),
                                    [&](const Parameter& p) { return p.name == name; });
    instance.parameters.push_back(static_cast<int>(known - stage.parameters.begin()));
    if (known == stage.parameters.end()) stage.parameters.push_back({name, spec});
  }
  stage.segments.push_back(std::move(instance));
}

}  // namespace

StageDefinition build_model(const ModelConfig& model, const BuildOptions& options) {
  TRIREME_CHECK(model.vocab_size > 0 && model.num_layers > 0);
  StageDefinition stage;
  stage.compute = options.compute;
  const Builder train(model, options, true), eval(model, options, false);
  const bool training = options.purpose == Purpose::training;

  const auto add_template = [&](std::unique_ptr<Graph> (Builder::*build)() const, Recompute how,
                                bool head) {
    SegmentTemplate segment;
    segment.eval = (eval.*build)();
    segment.forward_in_backward = head;
    if (training) {
      segment.train = (train.*build)();
      differentiate(*segment.train);
      recompute(*segment.train, how);
    }
    stage.templates.push_back(std::move(segment));
    return static_cast<int>(stage.templates.size()) - 1;
  };

  instantiate(stage, add_template(&Builder::embedding, Recompute::none, false), -1, "");
  // Full recomputation may cover the first layers only; the others then save everything.
  std::int64_t recomputed = model.num_layers;
  if (options.recompute == Recompute::full && options.recompute_layers > 0) {
    recomputed = std::min(options.recompute_layers, model.num_layers);
  }
  const int block = add_template(&Builder::block, options.recompute, false);
  const int plain =
      recomputed < model.num_layers ? add_template(&Builder::block, Recompute::none, false) : block;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer) {
    instantiate(stage, layer < recomputed ? block : plain, static_cast<std::int32_t>(layer),
                "layers." + std::to_string(layer) + ".");
  }
  instantiate(stage, add_template(&Builder::head, Recompute::full, true), -1, "");
  lay_out_parameters(stage.parameters);
  return stage;
}

std::int64_t padded_vocabulary(const ModelConfig& model) {
  const std::int64_t multiple = std::max<std::int64_t>(1, model.vocab_multiple);
  return (model.vocab_size + multiple - 1) / multiple * multiple;
}

std::int64_t parameter_count(const StageDefinition& definition) {
  std::int64_t count = 0;
  for (const Parameter& parameter : definition.parameters)
    count += parameter.spec.saved_shape.count();
  return count;
}

double training_flops_per_token(const ModelConfig& m) {
  const double h = static_cast<double>(m.hidden_size), ffn = static_cast<double>(m.ffn_hidden_size);
  const double q = static_cast<double>(m.num_heads * m.head_dim);
  const double kv = static_cast<double>(m.num_kv_heads * m.head_dim);
  const double matrices = h * (q + 2 * kv) + q * h + h * ffn * (m.activation == "swiglu" ? 3 : 2);
  const double layers = static_cast<double>(m.num_layers);
  return 6 * (layers * matrices + h * static_cast<double>(m.vocab_size)) +
         12 * layers * q * static_cast<double>(m.seq_length);
}

DType compute_dtype(const std::string& precision) {
  if (precision == "bf16") return DType::bf16;
  if (precision == "fp16") return DType::f16;
  if (precision == "fp64") return DType::f64;
  return DType::f32;
}

void fill_constants(const Stage& stage, const ModelConfig& model, std::int64_t positions) {
  auto* cos = static_cast<float*>(stage.constant(ConstantInput::rope_cos));
  auto* sin = static_cast<float*>(stage.constant(ConstantInput::rope_sin));
  if (!cos) return;
  const std::int64_t half =
      static_cast<std::int64_t>(model.rope_percent * static_cast<double>(model.head_dim)) / 2;
  for (std::int64_t p = 0; p < positions; ++p) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(p) *
          std::pow(model.rope_base, -static_cast<double>(i) / static_cast<double>(half));
      cos[p * half + i] = static_cast<float>(std::cos(angle));
      sin[p * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace trireme
