// The engine's whole block in double against the oracle: the output and every gradient.
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "model/oracle_block.h"
#include "model/transformer.h"
#include "named.h"

namespace trireme {
namespace {

ModelConfig model_of(const oracle::Block& block, bool bias) {
  ModelConfig m;
  m.family = block.rope ? "llama" : "gpt";
  m.num_layers = 1;
  m.hidden_size = block.hidden;
  m.num_heads = block.heads;
  m.num_kv_heads = block.kv_heads;
  m.head_dim = block.head_dim();
  m.ffn_hidden_size = block.ffn;
  m.seq_length = m.max_positions = block.seq;
  m.vocab_size = 8;
  m.position = named(block.rope ? "rope" : "learned");
  m.rope_base = block.rope_base;
  m.rope_percent = block.rope_dims == 0 ? 1.0 : 1.0 * block.rope_dims / block.head_dim();
  m.norm = named(block.rms_norm ? "rms_norm" : "layer_norm");
  m.norm_eps = block.eps;
  m.activation = block.activation == oracle::Block::swiglu     ? MlpActivation::swiglu
                 : block.activation == oracle::Block::gelu_erf ? MlpActivation::gelu_erf
                                                               : MlpActivation::gelu_tanh;
  m.bias = m.qkv_bias = bias;
  return m;
}

// A stage that is one block and nothing else.
class EngineBlock {
 public:
  EngineBlock(const oracle::Block& block, bool bias, Recompute how) {
    const ModelConfig model = model_of(block, bias);
    BuildOptions build;
    build.compute = DType::f64;
    build.batch = block.batch;
    build.recompute = how;
    StageDefinition definition = build_model(model, build);
    // Parameters that only the ends of the model had stay listed, unused.
    definition.segments = {definition.segments.at(1)};
    stage_ = std::make_unique<Stage>(std::move(definition), StageOptions{});
    stage_->allocate();
    fill_constants(*stage_, model, model.seq_length);
    auto* positions = static_cast<std::int32_t*>(stage_->batch(0, BatchInput::positions));
    for (int r = 0; positions && r < block.rows(); ++r) positions[r] = r % block.seq;
  }

  // Random weights, also as the oracle's.
  oracle::Parameters randomize() {
    oracle::Parameters out;
    for (const int p : used()) {
      const Parameter& parameter = stage_->definition().parameters[p];
      auto* weights = static_cast<double*>(stage_->parameter(p));
      const bool is_norm = parameter.spec.init == ParameterSpec::Init::ones;
      oracle::Values& values = out[name_of(p)];
      for (std::int64_t i = 0; i < parameter.spec.shape.count(); ++i) {
        weights[i] = (is_norm ? 1 : 0) + 0.3 * normal(1, p, static_cast<std::uint64_t>(i));
        values.push_back(weights[i]);
      }
    }
    return out;
  }

  oracle::Values forward(const oracle::Values& x) {
    std::copy(x.begin(), x.end(), static_cast<double*>(stage_->stage_input(0)));
    stage_->run({Pass::forward, 0, &step_});
    return values(stage_->stage_output(0), static_cast<std::int64_t>(x.size()));
  }

  oracle::Gradients backward(const oracle::Values& dy) {
    std::copy(dy.begin(), dy.end(), static_cast<double*>(stage_->output_grad(0)));
    stage_->run({Pass::backward, 0, &step_, true});
    oracle::Gradients out;
    out.dx = values(stage_->input_grad(0), static_cast<std::int64_t>(dy.size()));
    for (const int p : used()) {
      out.parameters[name_of(p)] =
          values(stage_->gradient(p), stage_->definition().parameters[p].spec.shape.count());
    }
    return out;
  }

 private:
  const std::vector<int>& used() const { return stage_->definition().segments[0].parameters; }
  std::string name_of(int p) const {
    return stage_->definition().parameters[p].name.substr(std::string("layers.0.").size());
  }
  static oracle::Values values(const void* from, std::int64_t count) {
    const auto* begin = static_cast<const double*>(from);
    return {begin, begin + count};
  }

  std::unique_ptr<Stage> stage_;
  StepBlock step_{1, 2, 1};
};

void expect_close(const oracle::Values& ours, const oracle::Values& theirs, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  double largest = 0;
  for (const double value : theirs) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ASSERT_NEAR(ours[i], theirs[i], tolerance * largest) << what << " at " << i;
  }
}

oracle::Values random_values(std::uint64_t stream, int count) {
  oracle::Values out(count);
  for (int i = 0; i < count; ++i) out[i] = normal(7, stream, static_cast<std::uint64_t>(i));
  return out;
}

void check(const oracle::Block& block, bool bias) {
  const int elements = block.rows() * block.hidden;
  const oracle::Values x = random_values(1, elements), dy = random_values(2, elements);
  const double tolerance = block.rope ? 1e-5 : 1e-12;  // the tables of rotations are f32
  for (const Recompute how : {Recompute::none, Recompute::selective, Recompute::full}) {
    EngineBlock engine(block, bias, how);
    const oracle::Parameters parameters = engine.randomize();
    const oracle::Trace trace = oracle::forward(block, parameters, x);
    expect_close(engine.forward(x), trace.y, tolerance, "output");
    const oracle::Gradients theirs = oracle::backward(block, parameters, trace, dy);
    const oracle::Gradients ours = engine.backward(dy);
    expect_close(ours.dx, theirs.dx, tolerance, "gradient of the input");
    ASSERT_EQ(ours.parameters.size(), theirs.parameters.size());
    for (const auto& [name, gradient] : theirs.parameters) {
      expect_close(ours.parameters.at(name), gradient, tolerance, name);
    }
  }
}

oracle::Block gpt() {
  return {.batch = 2, .seq = 9, .hidden = 24, .heads = 3, .kv_heads = 3, .ffn = 20};
}

oracle::Block llama() {
  return {.batch = 2,
          .seq = 9,
          .hidden = 32,
          .heads = 4,
          .kv_heads = 2,
          .ffn = 20,
          .rms_norm = true,
          .rope = true,
          .activation = oracle::Block::swiglu};
}

TEST(EngineBlock, GptIsTheOracles) {
  check(gpt(), true);
}

TEST(EngineBlock, GptWithExactGeluAndWithoutBiasesIsTheOracles) {
  oracle::Block block = gpt();
  block.activation = oracle::Block::gelu_erf;
  check(block, false);
}

TEST(EngineBlock, LlamaIsTheOracles) {
  check(llama(), false);
}

TEST(EngineBlock, LlamaWithPartlyRotatedHeadsAndBiasesIsTheOracles) {
  oracle::Block block = llama();
  block.rope_dims = 4;
  block.kv_heads = 1;
  check(block, true);
}

}  // namespace
}  // namespace trireme
