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
    local_rows_ = tp_.local_rows(rows_);
  }

  std::unique_ptr<Graph> embedding() const {
    auto graph = std::make_unique<Graph>(options_.compute);
    Graph& g = *graph;
    const ValueId tokens = g.batch(BatchInput::tokens, DType::i32, {rows_});
    const VocabTable words = word_table("embedding.word.weight");
    const ValueId table = words.parameter(g, tp_);
    ValueId positions = no_value, position_table = no_value;
    if (m_.position == "learned") {
      positions = g.batch(BatchInput::positions, DType::i32, {rows_});
      position_table = normal(g, "embedding.position.weight", {m_.max_positions, m_.hidden_size});
    }
    ValueId x = VocabEmbedding{words}(g, tp_, tokens, table, positions, position_table);
    if (dropout(m_.hidden_dropout) > 0) {
      x = ops::add(g, no_value, x, sample_ids(g), site(m_.hidden_dropout, embedding_site), seq_);
    }
    g.set_output(x);
    return graph;
  }

  std::unique_ptr<Graph> block() const {
    auto graph = std::make_unique<Graph>(options_.compute);
    Graph& g = *graph;
    const ValueId x = g.segment_input({local_rows_, m_.hidden_size});
    const ValueId ids = any_dropout() ? sample_ids(g) : no_value;

    const Norm input_norm = norm_parameters(g, "input_norm");
    const ValueId n1 =
        ops::norm(g, x, input_norm.weight, input_norm.bias, norm_kind(m_), m_.norm_eps);
    const ValueId attended = attention(g, n1, ids);

    const Norm mlp_norm = norm_parameters(g, "mlp_norm");
    const auto [sum, n2] =
        ops::add_norm(g, x, attended, mlp_norm.weight, mlp_norm.bias, norm_kind(m_), m_.norm_eps,
                      ids, site(m_.hidden_dropout, attention_out_site), seq_);
    const ValueId transformed = mlp(g, n2);
    g.set_output(ops::add(g, sum, transformed, ids, site(m_.hidden_dropout, mlp_out_site), seq_));
    return graph;
  }

  std::unique_ptr<Graph> head() const {
    auto graph = std::make_unique<Graph>(options_.compute);
    Graph& g = *graph;
    const ValueId x = g.segment_input({local_rows_, m_.hidden_size});
    const Norm final_norm = norm_parameters(g, "final_norm");
    const ValueId n =
        ops::norm(g, x, final_norm.weight, final_norm.bias, norm_kind(m_), m_.norm_eps);
    const VocabTable words =
        word_table(m_.tie_embeddings ? "embedding.word.weight" : "head.weight");
    const ValueId table = words.parameter(g, tp_);
    if (options_.purpose == Purpose::training) {
      const ValueId targets = g.batch(BatchInput::targets, DType::i32, {rows_});
      const ValueId weights = g.batch(BatchInput::loss_weights, DType::f32, {rows_});
      VocabCrossEntropy{words, options_.logits_bytes}(g, tp_, n, table, targets, weights);
    } else {
      g.set_result(ops::linear(g, n, table, no_value), ResultOutput::logits);
    }
    return graph;
  }

 private:
  struct Norm {
    ValueId weight, bias;
  };

  ValueId attention(Graph& g, ValueId x, ValueId ids) const {
    const std::int64_t head_dim = m_.head_dim, per_group = m_.num_heads / m_.num_kv_heads;
    const std::int64_t qkv_width = m_.num_kv_heads * (per_group + 2) * head_dim;
    // Each rank has whole groups: some queries with the key and the value that they share.
    const std::int64_t groups = tp_.share(m_.num_kv_heads);
    ValueId qkv = ColumnLinear{"attention.qkv", m_.hidden_size, qkv_width, m_.qkv_bias,
                               m_.init_std}(g, tp_, x);
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
    a.first_head = tp_.rank * groups * per_group;
    a.dropout = {dropout(m_.attention_dropout), attention_site};
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
    return RowLinear{"attention.out", m_.num_heads * head_dim, m_.hidden_size, m_.bias, deep_std()}(
        g, tp_, context);
  }

  ValueId mlp(Graph& g, ValueId x) const {
    const ActivationKind kind = activation_kind(m_);
    const int blocks = kind == ActivationKind::swiglu ? 2 : 1;
    const ValueId up = ColumnLinear{"mlp.up", m_.hidden_size, blocks * m_.ffn_hidden_size,
                                    m_.bias,  m_.init_std,    blocks}(g, tp_, x);
    return RowLinear{"mlp.down", m_.ffn_hidden_size, m_.hidden_size, m_.bias, deep_std()}(
        g, tp_, ops::activation(g, up, kind));
  }

  // Matrices that write into the residual stream start smaller (Megatron, after GPT-2).
  double deep_std() const { return m_.init_std / std::sqrt(2.0 * m_.num_layers); }

  ValueId normal(Graph& g, const char* name, Shape shape, double std = 0) const {
    return g.parameter(
        {name, shape, shape, ParameterSpec::Init::normal, std > 0 ? std : m_.init_std, true});
  }
  VocabTable word_table(const char* name) const {
    return {name, m_.vocab_size, m_.vocab_multiple, m_.hidden_size, m_.init_std};
  }
  Norm norm_parameters(Graph& g, const std::string& name) const {
    const Shape shape = {m_.hidden_size};
    ParameterSpec weight{name + ".weight", shape, shape, ParameterSpec::Init::ones, 0, false};
    ParameterSpec bias{name + ".bias", shape, shape, ParameterSpec::Init::zeros, 0, false};
    weight.partial_gradient = bias.partial_gradient = tp_.splits_rows();
    const ValueId w = g.parameter(std::move(weight));
    return {w, norm_kind(m_) == NormKind::rms_norm ? no_value : g.parameter(std::move(bias))};
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
  // Of activations between layers.
  DropoutAttributes site(double probability, DropoutSite where) const {
    return {dropout(probability), where, tp_.first_row(rows_)};
  }
  std::int64_t rope_positions() const {
    return std::max(seq_, options_.purpose == Purpose::decoding ? options_.cache_capacity : 0);
  }
  static std::int64_t rotary_dimensions(const ModelConfig& m) {
    return static_cast<std::int64_t>(m.rope_percent * static_cast<double>(m.head_dim)) / 2 * 2;
  }

  const ModelConfig& m_;
  const BuildOptions& options_;
  const TensorParallel& tp_ = options_.tensor;
  bool dropout_;
  std::int64_t seq_, rows_, local_rows_;
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

namespace {

// Refuses what no graph can be built for.
void check_part(const ModelConfig& model, const BuildOptions& options, const StagePart& part) {
  TRIREME_CHECK(model.vocab_size > 0 && model.num_layers > 0);
  TRIREME_CHECK(part.first_layer >= 0 && part.first_layer + part.layers <= model.num_layers);
  TRIREME_CHECK(part.embedding || part.head || part.layers > 0);
  const TensorParallel& tp = options.tensor;
  TRIREME_CHECK(tp.size == 1 || options.purpose == Purpose::training);
  const std::int64_t seq = options.seq > 0 ? options.seq : model.seq_length;
  if (tp.splits_rows() && options.batch * seq % tp.size != 0) {
    fail_input(
        "parallel.sequence_parallel cuts the {} x {} positions of a micro-batch into "
        "parallel.tp = {} equal parts: make train.micro_batch_size or model.seq_length a multiple "
        "of {}",
        options.batch, seq, tp.size, tp.size);
  }
}

// Builds templates of segments and adds instances of them.
class Assembler {
 public:
  Assembler(const ModelConfig& model, const BuildOptions& options, StageDefinition& stage)
      : train_(model, options, true),
        eval_(model, options, false),
        training_(options.purpose == Purpose::training),
        stage_(stage) {}

  int add_template(std::unique_ptr<Graph> (Builder::*build)() const, Recompute how,
                   bool forward_in_backward = false) {
    SegmentTemplate segment;
    segment.eval = (eval_.*build)();
    segment.forward_in_backward = forward_in_backward;
    if (training_) {
      segment.train = (train_.*build)();
      differentiate(*segment.train);
      recompute(*segment.train, how);
    }
    stage_.templates.push_back(std::move(segment));
    return static_cast<int>(stage_.templates.size()) - 1;
  }

  void add_layers(const StagePart& part, const BuildOptions& options) {
    // Full recomputation may cover the first layers only; the others then save everything.
    std::int64_t recomputed = part.layers;
    if (options.recompute == Recompute::full && options.recompute_layers > 0) {
      recomputed = std::min(options.recompute_layers, part.layers);
    }
    const int block = add_template(&Builder::block, options.recompute);
    const int plain =
        recomputed < part.layers ? add_template(&Builder::block, Recompute::none) : block;
    for (std::int64_t i = 0; i < part.layers; ++i) {
      const std::int64_t layer = part.first_layer + i;
      instantiate(stage_, i < recomputed ? block : plain, static_cast<std::int32_t>(layer),
                  "layers." + std::to_string(layer) + ".");
    }
  }

 private:
  const Builder train_, eval_;
  const bool training_;
  StageDefinition& stage_;
};

}  // namespace

StageDefinition build_model(const ModelConfig& model, const BuildOptions& options) {
  StagePart part = options.part;
  if (part.layers < 0) part.layers = model.num_layers - part.first_layer;
  check_part(model, options, part);
  StageDefinition stage;
  stage.compute = options.compute;
  Assembler assembler(model, options, stage);
  if (part.embedding) {
    instantiate(stage, assembler.add_template(&Builder::embedding, Recompute::none), -1, "");
  }
  if (part.layers > 0) assembler.add_layers(part, options);
  if (part.head) {
    instantiate(stage, assembler.add_template(&Builder::head, Recompute::full, true), -1, "");
  }
  lay_out_parameters(stage);
  return stage;
}

std::int64_t padded_vocabulary(const ModelConfig& model, int tensor_ranks) {
  return VocabTable{"", model.vocab_size, model.vocab_multiple}.padded({tensor_ranks});
}

std::int64_t parameter_count(const StageDefinition& definition) {
  std::int64_t count = 0;
  for (const Parameter& parameter : definition.parameters)
    count += parameter.spec.saved_shape.count();
  return count;
}

std::int64_t parameter_count(const ModelConfig& model) {
  BuildOptions options;
  options.purpose = Purpose::scoring;
  options.seq = 1;
  const auto with_layers = [&](std::int64_t layers) {
    ModelConfig part = model;
    part.num_layers = layers;
    return parameter_count(build_model(part, options));
  };
  const std::int64_t one = with_layers(1);
  return model.num_layers == 1 ? one : one + (model.num_layers - 1) * (with_layers(2) - one);
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
