// Whole tiny models in double: every parameter's gradient against finite differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "config/config.h"
#include "model/tiny_model.h"
#include "model/transformer.h"
#include "model/two_kinds.h"

namespace trireme {
namespace {

struct TestedModel : ModelConfig {
  const ArchitectureDefinition* architecture;
};

// Heads that share keys and values in Llama, the other GELU in BERT. "two_kinds" is of no family;
// "experts" is Llama with a dense layer and one of four experts and a shared one, "residual" the
// same but mixed.
TestedModel tested(const std::string& name) {
  const bool two_kinds = name == "two_kinds";
  const std::string family = two_kinds                                 ? "gpt"
                             : name == "experts" || name == "residual" ? "llama"
                                                                       : name;
  TestedModel model{testing_model::tiny(family), nullptr};
  model.architecture = two_kinds ? &testing_model::two_kinds : &architecture_of(model);
  if (two_kinds) model.num_layers = 3;
  if (family.starts_with("llama")) {
    model.num_heads = 4;
    model.num_kv_heads = model.is_latent() ? 4 : 2;
  }
  if (name == "experts" || name == "residual") {
    model.moe.num_experts = 4;
    model.moe.ffn_hidden_size = 12;
    model.moe.first_layer = 1;
    model.moe.shared_ffn_hidden_size = 10;
    model.moe.shared_gate = name == "experts";
    model.moe.residual = name == "residual";
  }
  if (model.family == "bert") model.activation = MlpActivation::gelu_erf;
  return model;
}

// A stage in double with random weights and one micro-batch in slot 0.
class Fixture {
 public:
  Fixture(const TestedModel& model, BuildOptions build, StageOptions options = {}) {
    build.compute = DType::f64;
    build.batch = 2;
    build.logits_bytes = 5 * padded_vocabulary(model) * 8;  // several slices
    stage = std::make_unique<Stage>(build_model(model, build, *model.architecture), options);
    stage->allocate();
    fill_constants(*stage, model, model.seq_length);
    const auto& parameters = stage->definition().parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      auto* weights = static_cast<double*>(stage->parameter(static_cast<int>(p)));
      const bool is_norm = parameters[p].spec.init == ParameterSpec::Init::ones;
      for (std::int64_t i = 0; i < parameters[p].spec.saved_shape.count(); ++i) {
        weights[i] = (is_norm ? 1 : 0) + 0.3 * normal(1, p, static_cast<std::uint64_t>(i));
      }
    }
    fill_batch(model);
  }

  double loss() {
    stage->run({Pass::forward, 0, &step});
    stage->run({Pass::backward, 0, &step, true});
    return step.grad_scale * words() + step.sample_scale * orders();
  }

  std::vector<double> gradients() {
    loss();
    return made_gradients();
  }
  // Of all parameters, without what lies between them.
  std::vector<double> made_gradients() const {
    std::vector<double> all;
    const auto& parameters = stage->definition().parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const auto* from = static_cast<const double*>(stage->gradient(static_cast<int>(p)));
      all.insert(all.end(), from, from + parameters[p].spec.shape.count());
    }
    return all;
  }

  std::unique_ptr<Stage> stage;
  StepBlock step{.seed = 99, .step = 5, .loss_scale = 0.25, .sample_scale = 1.5};

 private:
  template <class Element, class Function>
  void fill(BatchInput which, Function&& function) {
    auto* to = static_cast<Element*>(stage->batch(0, which));
    const auto count = stage->batch_bytes(which) / static_cast<std::int64_t>(sizeof(Element));
    for (std::int64_t i = 0; to && i < count; ++i) to[i] = static_cast<Element>(function(i));
  }

  void fill_batch(const ModelConfig& model) {
    using Id = std::int32_t;
    const auto words = static_cast<double>(model.vocab_size);
    const std::int64_t seq = model.seq_length;
    fill<Id>(BatchInput::tokens, [&](auto r) { return words * uniform(2, 0, r); });
    fill<Id>(BatchInput::targets, [&](auto r) { return words * uniform(2, 1, r); });
    fill<float>(BatchInput::loss_weights, [](auto r) { return r % 5 == 3 ? 0 : 1; });
    fill<Id>(BatchInput::positions, [&](auto r) { return r % seq; });
    fill<std::int64_t>(BatchInput::sample_ids, [](auto b) { return 70 + b; });
    fill<Id>(BatchInput::first_in_window, [&](auto r) {
      const std::int64_t window = model.attention_window;
      return window > 0 ? std::max<std::int64_t>(0, r % seq + 1 - window) : 0;
    });
    fill<Id>(BatchInput::segments, [&](auto r) { return r % seq > 2; });
    fill<Id>(BatchInput::lengths, [&](auto b) { return b == 0 ? seq - 2 : seq; });
    fill<Id>(BatchInput::first_rows, [&](auto b) { return b * seq; });
    fill<Id>(BatchInput::predicted_rows, [](auto i) { return 2 * i + 1; });
    fill<Id>(BatchInput::order_labels, [](auto b) { return b; });
  }

  double words() const {
    const auto* losses = static_cast<const double*>(stage->result(0, ResultOutput::token_loss));
    const auto* weights = static_cast<const float*>(stage->batch(0, BatchInput::loss_weights));
    double sum = 0;
    for (std::int64_t i = 0; i < stage->batch_bytes(BatchInput::loss_weights) / 4; ++i)
      sum += losses[i] * weights[i];
    return sum;
  }
  // Of both samples.
  double orders() const {
    const auto* losses = static_cast<const double*>(stage->result(0, ResultOutput::order_loss));
    return losses ? losses[0] + losses[1] : 0;
  }
};

void check_against_finite_differences(const TestedModel& model, const BuildOptions& build) {
  Fixture f(model, build);
  f.loss();
  const auto* flat = static_cast<const double*>(f.stage->gradient(0));
  const std::vector<double> gradients(flat, flat + f.stage->definition().flat_elements);
  const auto& parameters = f.stage->definition().parameters;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    auto* weights = static_cast<double*>(f.stage->parameter(static_cast<int>(p)));
    const std::int64_t count = parameters[p].spec.saved_shape.count();
    for (std::int64_t i = 0; i < count; i += std::max<std::int64_t>(1, count / 7)) {
      const double kept = weights[i], h = 2e-6;
      weights[i] = kept + h;
      const double above = f.loss();
      weights[i] = kept - h;
      const double below = f.loss();
      weights[i] = kept;
      const double expected = (above - below) / (2 * h);
      EXPECT_NEAR(gradients[parameters[p].offset + i], expected, 1e-7 + 1e-6 * std::abs(expected))
          << parameters[p].name << "[" << i << "]";
    }
  }
}

class ModelGradient : public testing::TestWithParam<std::string> {};

TEST_P(ModelGradient, MatchesFiniteDifferences) {
  check_against_finite_differences(tested(GetParam()), {});
}

TEST_P(ModelGradient, MatchesFiniteDifferencesWithDropout) {
  TestedModel model = tested(GetParam());
  model.hidden_dropout = 0.2;
  model.attention_dropout = 0.3;
  check_against_finite_differences(model, {});
}

TEST(BertGradient, OfPredictedRowsAlone) {
  TestedModel model = tested("bert_post");
  BuildOptions build;
  build.predictions = 3;
  check_against_finite_differences(model, build);
  model.order_head = false;
  check_against_finite_differences(model, build);
}

TEST_P(ModelGradient, RecomputationGivesTheSameBits) {
  TestedModel model = tested(GetParam());
  model.hidden_dropout = 0.1;
  const std::vector<double> none = Fixture(model, {}).gradients();
  std::int64_t saved_before = 0;
  for (const Recompute how : {Recompute::none, Recompute::selective, Recompute::full}) {
    BuildOptions build;
    build.recompute = how;
    Fixture f(model, build);
    EXPECT_EQ(none, f.gradients());
    const std::int64_t saved = f.stage->memory().regions[3].bytes;
    if (how != Recompute::none) {
      EXPECT_LT(saved, saved_before);
    }
    saved_before = saved;
  }
  EXPECT_EQ(saved_before, 0);
}

TEST_P(ModelGradient, PoisonAndSeparateMemoryGiveTheSameBits) {
  TestedModel model = tested(GetParam());
  model.hidden_dropout = model.attention_dropout = 0.1;
  for (const Recompute how : {Recompute::none, Recompute::selective, Recompute::full}) {
    BuildOptions build;
    build.recompute = how;
    const std::vector<double> plain = Fixture(model, build).gradients();
    StageOptions careful;
    careful.reuse = false;
    careful.poison = true;
    EXPECT_EQ(plain, Fixture(model, build, careful).gradients());
    careful.reuse = true;
    EXPECT_EQ(plain, Fixture(model, build, careful).gradients());
  }
}

TEST_P(ModelGradient, SeparateWeightGradientsGiveTheSameBits) {
  const TestedModel model = tested(GetParam());
  for (const Recompute how : {Recompute::none, Recompute::selective, Recompute::full}) {
    BuildOptions build;
    build.recompute = how;
    const std::vector<double> together = Fixture(model, build).gradients();
    StageOptions split;
    split.split_weight_grad = true;
    split.poison = true;
    Fixture f(model, build, split);
    f.loss();
    f.stage->run({Pass::weight_grad, 0, &f.step, true});
    EXPECT_EQ(together, f.made_gradients());
  }
}

TEST_P(ModelGradient, SecondMicroBatchAdds) {
  Fixture f(tested(GetParam()), {});
  const std::vector<double> once = f.gradients();
  f.stage->run({Pass::forward, 0, &f.step});
  f.stage->run({Pass::backward, 0, &f.step, false});
  const std::vector<double> twice = f.made_gradients();
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(twice[i], 2 * once[i], 1e-12);
}

TEST(KindsOfBlocks, HaveOneTemplateEach) {
  const TestedModel model = tested("two_kinds");
  BuildOptions build;
  build.part = {.first_layer = 1, .layers = 2, .embedding = false, .head = true};
  const StageDefinition stage = build_model(model, build, *model.architecture);
  EXPECT_EQ(stage.templates.size(), 3u);  // two blocks and the head
  EXPECT_EQ(stage.segments[0].layer, 1);
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(stage.parameters,
                               [&](const Parameter& parameter) { return parameter.name == name; });
  };
  EXPECT_TRUE(has("layers.1.only_norm.weight"));
  EXPECT_FALSE(has("layers.1.attention.qkv.weight"));
  EXPECT_TRUE(has("layers.2.attention.qkv.weight"));
  EXPECT_FALSE(has("layers.2.only_norm.weight"));
}

// Full recomputation of a stage's first layers doubles the templates of the kinds that continue
// after.
TEST(KindsOfBlocks, RecomputeApart) {
  TestedModel model = tested("two_kinds");
  model.num_layers = 4;
  BuildOptions build;
  const std::vector<double> none = Fixture(model, build).gradients();
  build.recompute = Recompute::full;
  build.recompute_layers = 3;
  const Fixture f(model, build);
  EXPECT_EQ(f.stage->definition().templates.size(), 5u);
  EXPECT_EQ(Fixture(model, build).gradients(), none);
}

INSTANTIATE_TEST_SUITE_P(Families, ModelGradient,
                         testing::Values("gpt", "gpt_bloom", "llama", "llama_gemma", "llama_gemma2",
                                         "llama_gemma3", "llama_granite", "llama_qk_norm",
                                         "llama_delta", "llama_mamba", "llama_parts", "llama_olmo2",
                                         "llama_window", "bert", "bert_post", "two_kinds",
                                         "experts", "residual", "llama_latent",
                                         "llama_latent_plain", "llama_some_windows", "llama_chunks",
                                         "llama_mtp", "llama_gemma_mtp"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trireme
