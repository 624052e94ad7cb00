// Assembles the segments of a model to stages.
#include "model/transformer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/portable_math.h"
#include "config/rotary.h"
#include "graph/autodiff.h"
#include "graph/fuse.h"
#include "model/builder.h"
#include "model/layer_kinds.h"
#include "model/rotary.h"

namespace trireme {
namespace {

// Rejects parts for which no graph can be built.
void check_part(const ModelConfig& model, const BuildOptions& options, const StagePart& part) {
  TRIREME_CHECK(model.vocab_size > 0 && model.num_layers > 0);
  TRIREME_CHECK(part.first_layer >= 0 && part.first_layer + part.layers <= model.num_layers);
  TRIREME_CHECK(part.embedding || part.head || part.layers > 0);
  const TensorParallel& tp = options.tensor;
  TRIREME_CHECK((tp.size == 1 && options.context.size == 1) ||
                options.purpose == Purpose::training);
  const std::int64_t seq = options.seq > 0 ? options.seq : model.seq_length;
  TRIREME_CHECK(options.context.size == 1 || seq % (2 * options.context.size) == 0);
  if (tp.splits_rows() && options.batch * options.context.share(seq) % tp.size != 0) {
    fail_input(
        "parallel.sequence_parallel cuts the {} x {} positions of a micro-batch into parallel.tp = "
        "{} equal parts: make train.micro_batch_size or model.seq_length a multiple of {}",
        options.batch, options.context.share(seq), tp.size, tp.size);
  }
}

bool is_in_fp8(const ModelConfig& model, const Fp8Config& fp8, std::int64_t layer) {
  return fp8.recipe != Fp8Recipe::none && layer >= fp8.first_layers_bf16 &&
         layer < model.num_layers - fp8.last_layers_bf16;
}

// FP8 settings of the linear layers of blocks.
Fp8Products fp8_products(const ModelConfig& model, const BuildOptions& options) {
  Fp8Products fp8;
  const Fp8Config& config = options.fp8;
  if (config.recipe == Fp8Recipe::none) return fp8;
  const bool fnuz = config.encoding == Fp8Encoding::fnuz, hybrid = config.format == Fp8Mix::hybrid;
  fp8.recipe = config.recipe;
  fp8.forward = fnuz ? Fp8Type::e4m3_fnuz : Fp8Type::e4m3;
  fp8.backward = !hybrid ? fp8.forward : fnuz ? Fp8Type::e5m2_fnuz : Fp8Type::e5m2;
  fp8.power_of_2_scales = config.power_of_2_scales;
  const std::int64_t seq = options.seq > 0 ? options.seq : model.seq_length;
  const SequenceCut cut = options.context.cut(seq);
  fp8.sequence_rows = options.context.share(seq);
  fp8.run_rows = cut.chunk > 0 ? cut.chunk : seq;
  fp8.tensor = options.tensor.group();
  fp8.context = options.context.group();
  return fp8;
}

// Builds segment templates and adds instances of them.
class Assembler {
 public:
  Assembler(const ModelConfig& model, const BuildOptions& options,
            const ArchitectureDefinition& architecture, StageDefinition& stage)
      : model_(model),
        train_(architecture.make_builder(model, options, true)),
        eval_(architecture.make_builder(model, options, false)),
        training_(options.purpose == Purpose::training),
        device_(options.device),
        stage_(stage) {}

  // `build(builder)` makes the graph.
  template <class Build>
  int add_template(const Build& build, Recompute how, bool forward_in_backward = false,
                   const Fp8Products& fp8 = {}) {
    SegmentTemplate segment;
    segment.eval = build(*eval_);
    segment.eval->set_fp8(fp8);
    if (device_ != DeviceKind::cpu) fuse_residual(*segment.eval);
    segment.forward_in_backward = forward_in_backward;
    if (training_) {
      segment.train = build(*train_);
      segment.train->set_fp8(fp8);
      differentiate(*segment.train);
      if (device_ != DeviceKind::cpu) fuse_residual(*segment.train);
      recompute(*segment.train, how);
      fuse(*segment.train, device_);
    }
    stage_.templates.push_back(std::move(segment));
    return static_cast<int>(stage_.templates.size()) - 1;
  }

  // Adds an instance of a template, with its parameters under the given prefix; parameters that
  // already exist in the model under the same name are shared.
  void instantiate(int segment, std::int32_t layer, const std::string& prefix) {
    SegmentInstance instance{segment, layer, {}};
    for (const ParameterSpec& spec : stage_.templates[segment].eval->parameters()) {
      const std::string name = prefix + spec.name;
      const auto next = static_cast<int>(stage_.parameters.size());
      const auto [known, is_new] = parameters_.emplace(name, next);
      instance.parameters.push_back(known->second);
      if (is_new) stage_.parameters.push_back({name, spec});
    }
    stage_.segments.push_back(std::move(instance));
  }

  void add_layers(const StagePart& part, const BuildOptions& options) {
    // Full recomputation may apply to leading layers only; the others then save everything.
    std::int64_t recomputed = part.layers;
    if (options.recompute == Recompute::full && options.recompute_layers > 0) {
      recomputed = std::min(options.recompute_layers, part.layers);
    }
    const Fp8Products fp8 = fp8_products(model_, options);
    std::map<std::tuple<BlockKind, Recompute, bool>, int> templates;
    for (std::int64_t i = 0; i < part.layers; ++i) {
      const std::int64_t layer = part.first_layer + i;
      const BlockKind kind = eval_->block_kind(layer);
      const Recompute how = i < recomputed ? options.recompute : Recompute::none;
      const bool in_fp8 = is_in_fp8(model_, options.fp8, layer);
      const auto [known, is_new] = templates.try_emplace({kind, how, in_fp8});
      if (is_new) {
        known->second = add_template([&](const Builder& b) { return b.block(kind); }, how, false,
                                     in_fp8 ? fp8 : Fp8Products{});
      }
      instantiate(known->second, static_cast<std::int32_t>(layer),
                  "layers." + std::to_string(layer) + ".");
    }
  }

 private:
  const ModelConfig& model_;
  const std::unique_ptr<Builder> train_, eval_;
  const bool training_;
  const DeviceKind device_;
  StageDefinition& stage_;
  std::unordered_map<std::string, int> parameters_;  // of the stage, by name
};

// A table [positions, lengths, pairs] of `function` of the angles.
template <class A, class Function>
void fill_rotary(A* table, const ModelConfig& model, std::int64_t positions,
                 std::span<const std::int64_t> lengths, const Function& function) {
  std::vector<double> frequencies;
  for (const std::int64_t length : lengths) {
    const std::vector<double> more = rotary_frequencies(model, length);
    frequencies.insert(frequencies.end(), more.begin(), more.end());
  }
  for (std::int64_t p = 0; p < positions; ++p) {
    for (const double frequency : frequencies) {
      *table++ = static_cast<A>(function(static_cast<double>(p) * frequency));
    }
  }
}

// Calls f with each layer, and with the last one once more for each module of multi-token
// prediction, whose block is of the same kind.
template <class F>
void for_each_block(const ModelConfig& m, const F& f) {
  for (std::int64_t i = 0; i < m.num_layers + m.mtp_layers; ++i) f(std::min(i, m.num_layers - 1));
}

// Number of weights in the MLPs of all blocks that are active for a token.
double active_mlp_weights(const ModelConfig& m) {
  const double h = static_cast<double>(m.hidden_size);
  const double width = h * (has_gate(m) ? 3 : 2);
  const ExpertConfig& moe = m.moe;
  const double dense = width * static_cast<double>(m.ffn_hidden_size);
  const double chosen =
      width * static_cast<double>(moe.top_k * moe.ffn_hidden_size + moe.shared_ffn_hidden_size);
  double sum = 0;
  for_each_block(m, [&](std::int64_t layer) {
    if (!m.mlp_in_layer(layer)) return;
    const std::int64_t experts = moe.experts_in(layer);
    sum += experts > 0 ? chosen + h * static_cast<double>(experts) : dense;
  });
  return sum;
}

// Attended positions per position, over all blocks together: the full sequence, without causal
// halving; windows reduce it in proportion to the visible pairs.
double attended_positions(const ModelConfig& m) {
  const auto seq = static_cast<double>(m.seq_length);
  const auto window = static_cast<double>(m.attention_window);
  double sum = 0;
  for_each_block(m, [&](std::int64_t layer) {
    if (m.linear_in_layer(layer) || !m.attention_in_layer(layer)) return;
    const bool hides = m.window_in_layer(layer) && window < seq;
    sum += !hides ? seq : m.window_chunks ? window : window * (2 - window / seq);
  });
  return sum;
}

// Number of weights of a layer's linear attention.
double linear_attention_weights(const ModelConfig& m) {
  const double keys = static_cast<double>(m.linear_key_heads * m.linear_key_head_dim);
  const double values = static_cast<double>(m.linear_value_heads * m.linear_value_head_dim);
  const double channels = 2 * keys + values, width = static_cast<double>(m.linear_conv_width);
  const double rates = m.linear_kind == LinearKind::mamba2 ? 1 : 2;
  return static_cast<double>(m.hidden_size) *
             (channels + 2 * values + rates * static_cast<double>(m.linear_value_heads)) +
         channels * width;
}

// Multiplications of a position's states: two reads, or one in Mamba-2, and one update.
double state_products(const ModelConfig& m) {
  const int products = m.linear_kind == LinearKind::mamba2 ? 2 : 3;
  return static_cast<double>(products * m.linear_value_heads * m.linear_key_head_dim *
                             m.linear_value_head_dim * std::ssize(m.linear_layers));
}

// Number of weights of a layer's attention, all active for every token.
double attention_weights(const ModelConfig& m) {
  const double h = static_cast<double>(m.hidden_size);
  const double heads = static_cast<double>(m.num_heads), d = static_cast<double>(m.head_dim);
  if (!m.is_latent())
    return h * d * ((m.attention_gate ? 3 : 2) * heads + 2 * static_cast<double>(m.num_kv_heads));
  const double value = static_cast<double>(m.v_head_dim), q = static_cast<double>(m.q_lora_rank);
  const double kv = static_cast<double>(m.kv_lora_rank);
  const double queries = q > 0 ? q * (h + heads * d) : h * heads * d;
  const double keys = h * (kv + static_cast<double>(m.qk_rope_head_dim)) +
                      kv * heads * (static_cast<double>(m.qk_nope_head_dim) + value);
  return queries + keys + heads * value * h;
}

}  // namespace

StageDefinition build_model(const ModelConfig& model, const BuildOptions& options) {
  return build_model(model, options, architecture_of(model));
}

StageDefinition build_model(const ModelConfig& model, const BuildOptions& options,
                            const ArchitectureDefinition& architecture) {
  StagePart part = options.part;
  if (part.layers < 0) part.layers = model.num_layers - part.first_layer;
  check_part(model, options, part);
  StageDefinition stage;
  stage.compute = options.compute;
  stage.exact_block = options.exact_block;
  stage.attention_window = model.attention_window;
  stage.window_chunks = model.window_chunks;
  Assembler assembler(model, options, architecture, stage);
  if (part.embedding) {
    const auto build = [](const Builder& b) { return b.embedding(); };
    assembler.instantiate(assembler.add_template(build, options.recompute), -1, "");
  }
  if (part.layers > 0) assembler.add_layers(part, options);
  if (part.head) {
    const auto build = [](const Builder& b) { return b.head(); };
    // Blocks in the head draw and count as those of a layer after the last one.
    const bool has_blocks = model.mtp_layers > 0;
    assembler.instantiate(assembler.add_template(build, Recompute::full, true),
                          has_blocks ? static_cast<std::int32_t>(model.num_layers) : -1, "");
  }
  lay_out_parameters(stage);
  return stage;
}

std::vector<LayerKind> layer_kinds(const ModelConfig& model, const Fp8Config& fp8) {
  const BuildOptions options;
  const auto builder = architecture_of(model).make_builder(model, options, false);
  std::vector<LayerKind> kinds;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer)
    kinds.push_back({builder->block_kind(layer), is_in_fp8(model, fp8, layer)});
  return kinds;
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
  options.purpose = model.mtp_layers > 0 ? Purpose::training : Purpose::scoring;
  options.seq = 1;
  return parameter_count(build_model(model, options));
}

double attention_flops_per_token(const ModelConfig& m) {
  const double widths = static_cast<double>(m.num_heads * (m.head_dim + m.value_dim()));
  return 6 * widths * attended_positions(m) + 6 * state_products(m);
}

double training_flops_per_token(const ModelConfig& m) {
  const double h = static_cast<double>(m.hidden_size);
  const auto modules = static_cast<double>(m.mtp_layers);
  double attention = 0;
  for_each_block(m, [&](std::int64_t layer) {
    if (!m.attention_in_layer(layer)) return;
    attention += m.linear_in_layer(layer) ? linear_attention_weights(m) : attention_weights(m);
  });
  return 6 * (attention + active_mlp_weights(m) +
              (1 + modules) * h * static_cast<double>(m.vocab_size) + modules * 2 * h * h) +
         attention_flops_per_token(m);
}

DType compute_dtype(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return DType::bf16;
    case Precision::fp16:
      return DType::f16;
    case Precision::fp32:
      return DType::f32;
    case Precision::fp64:
      return DType::f64;
  }
  fail("internal error: no type computes in {}", precision);
}

void fill_constants(const Stage& stage, const ModelConfig& model, std::int64_t positions,
                    bool all_lengths) {
  std::vector<std::int64_t> lengths = {positions};
  if (all_lengths && rotary_rows(model) > 1)
    lengths = {model.rope_original_length, model.rope_original_length + 1};
  with_accumulation_type(stage.definition().accumulate(), [&]<class A>(A) {
    const auto write = [&](ConstantInput which, auto fill) {
      void* table = stage.constant(which);
      if (!table) return;
      stage.device().write(table, stage.constant_bytes(which),
                           [&](std::byte* host) { fill(reinterpret_cast<A*>(host)); });
    };
    const auto rotate = [&](ConstantInput cos, ConstantInput sin, const ModelConfig& as) {
      const double amplitude = rotary_amplitude(as);
      write(cos, [&](A* table) {
        fill_rotary(table, as, positions, lengths,
                    [=](double a) { return amplitude * math::cos(a); });
      });
      write(sin, [&](A* table) {
        fill_rotary(table, as, positions, lengths,
                    [=](double a) { return amplitude * math::sin(a); });
      });
    };
    rotate(ConstantInput::rope_cos, ConstantInput::rope_sin, model);
    rotate(ConstantInput::rope_cos_local, ConstantInput::rope_sin_local,
           with_local_rotation(model));
    write(ConstantInput::query_factor, [&](A* table) {
      for (std::int64_t p = 0; p < positions; ++p)
        table = std::fill_n(table, lengths.size(), static_cast<A>(query_factor(model, p)));
    });
    write(ConstantInput::no_rope_query_factor, [&](A* table) {
      for (std::int64_t p = 0; p < positions; ++p)
        table = std::fill_n(table, lengths.size(), static_cast<A>(no_rope_query_factor(model, p)));
    });
    write(ConstantInput::zeros, [&](A* zeros) {
      std::memset(zeros, 0, static_cast<std::size_t>(stage.constant_bytes(ConstantInput::zeros)));
    });
  });
}

}  // namespace trireme
