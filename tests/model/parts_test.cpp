// A model in parts, run by hand one after the other: the same bits as in one stage (but for how a
// tied table's two gradients are added).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>

#include "comm/local.h"
#include "model/batch_inputs.h"
#include "model/tiny_model.h"
#include "parallel/tensor_group.h"

namespace trireme {
namespace {

using namespace testing_model;
using Parts = std::vector<StagePart>;
using Gradients = std::map<std::string, std::vector<double>>;

struct Outcome {
  std::vector<double> losses;
  Gradients gradients;
};

ModelConfig four_layers(const std::string& family) {
  ModelConfig model = tiny(family);
  model.num_layers = 4;
  model.hidden_dropout = 0.2;
  model.attention_dropout = 0.1;
  return model;
}

Outcome run_whole(const ModelConfig& model, const BuildOptions& build,
                  const RankGroups& group = {}) {
  TinyStage<double> stage(model, build, {}, group);
  stage.forward();
  stage.backward();
  return {stage.losses(), stage.gradients()};
}

// A tied table has users in the first and in the last part: their gradients are added.
void add_gradients(Gradients& sum, const Gradients& more) {
  for (const auto& [name, gradient] : more) {
    std::vector<double>& to = sum[name];
    to.resize(gradient.size());
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += gradient[i];
  }
}

Outcome run_parts(const ModelConfig& model, BuildOptions build, const Parts& parts,
                  const RankGroups& group = {}) {
  std::vector<std::unique_ptr<TinyStage<double>>> stages;
  for (const StagePart& part : parts) {
    build.part = part;
    stages.push_back(std::make_unique<TinyStage<double>>(model, build, StageOptions{}, group));
  }
  const auto bytes = static_cast<std::size_t>(build.tensor.local_rows(2 * model.seq_length) *
                                              model.hidden_size * 8);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (s > 0) {
      std::memcpy(stages[s]->stage().stage_input(0), stages[s - 1]->stage().stage_output(0), bytes);
    }
    stages[s]->forward();
  }
  Outcome outcome;
  for (std::size_t s = stages.size(); s-- > 0;) {
    if (s + 1 < stages.size()) {
      std::memcpy(stages[s]->stage().output_grad(0), stages[s + 1]->stage().input_grad(0), bytes);
    }
    stages[s]->backward();
    add_gradients(outcome.gradients, stages[s]->gradients());
  }
  outcome.losses = stages.back()->losses();  // the head runs in the backward pass
  return outcome;
}

const Parts two_parts = {{0, 3, true, false}, {3, 1, false, true}};
const Parts four_parts = {
    {0, 0, true, false}, {0, 1, false, false}, {1, 3, false, false}, {4, 0, false, true}};

void expect_equal(const Outcome& ours, const Outcome& theirs) {
  EXPECT_EQ(ours.losses, theirs.losses);
  ASSERT_EQ(ours.gradients.size(), theirs.gradients.size());
  for (const auto& [name, gradient] : theirs.gradients) {
    if (name == "embedding.word.weight") {
      // Where one stage has both users, the second adds row by row to what the first left.
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        EXPECT_NEAR(ours.gradients.at(name)[i], gradient[i], 1e-14);
      }
    } else {
      EXPECT_EQ(ours.gradients.at(name), gradient) << name;
    }
  }
}

class ModelParts : public testing::TestWithParam<std::string> {};

TEST_P(ModelParts, GiveTheSameBitsAsTheWhole) {
  const ModelConfig model = four_layers(GetParam());
  for (const Recompute how : {Recompute::none, Recompute::full}) {
    BuildOptions build;
    build.recompute = how;
    const Outcome whole = run_whole(model, build);
    for (const Parts& parts : {two_parts, four_parts}) {
      expect_equal(run_parts(model, build, parts), whole);
    }
    // Each part recomputes as many layers as the option says.
    build.recompute_layers = 1;
    expect_equal(run_parts(model, build, two_parts), whole);
  }
}

TEST_P(ModelParts, GiveTheSameBitsAmongTensorParallelRanks) {
  const ModelConfig model = four_layers(GetParam());
  for (const bool sequence_parallel : {false, true}) {
    if (sequence_parallel && model.family == "bert") continue;
    run_local_ranks(2, {.timeout_s = 60}, [&](Transport& transport) {
      TensorGroup group(transport.world());
      RankGroups groups;
      groups[GroupKind::tensor] = &group;
      BuildOptions build;
      build.tensor = {2, group.rank(), sequence_parallel};
      const Outcome whole = run_whole(model, build, groups);
      expect_equal(run_parts(model, build, two_parts, groups), whole);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ModelParts,
                         testing::Values("gpt", "gpt_bloom", "llama", "llama_gemma",
                                         "llama_output_norm", "llama_window", "llama_some_windows",
                                         "llama_latent", "bert", "bert_post"),
                         [](const auto& info) { return info.param; });

std::vector<std::string> names(const ModelConfig& model, const StagePart& part) {
  BuildOptions build;
  build.part = part;
  std::vector<std::string> all;
  for (const Parameter& p : build_model(model, build).parameters) all.push_back(p.name);
  return all;
}

TEST(PartsOfAModel, KeepGlobalNamesAndLayerNumbers) {
  ModelConfig model = four_layers("gpt");
  EXPECT_EQ(
      names(model, {4, 0, false, true}),
      (std::vector<std::string>{"final_norm.weight", "final_norm.bias", "embedding.word.weight"}));
  const std::vector<std::string> middle = names(model, {2, 2, false, false});
  EXPECT_EQ(middle.front(), "layers.2.input_norm.weight");
  EXPECT_EQ(middle.back(), "layers.3.mlp.down.bias");
  BuildOptions build;
  build.part = {2, 2, false, false};
  EXPECT_EQ(build_model(model, build).segments.back().layer, 3);
}

// What else a rank would open and read for nothing.
TEST(PartsOfAModel, OnlyTheEndsReadDataUnlessDocumentsOrPaddingShowInTheMiddle) {
  const auto reads = [](const std::string& family, const StagePart& part, bool packed,
                        bool positions) {
    BuildOptions build;
    build.part = part;
    build.packed_documents = packed;
    return reads_data(build_model(four_layers(family), build), positions);
  };
  const StagePart first{0, 2, true, false}, middle{2, 1, false, false}, last{3, 1, false, true};
  for (const std::string family : {"gpt", "llama", "bert"}) {
    EXPECT_TRUE(reads(family, first, false, false)) << family;
    EXPECT_TRUE(reads(family, last, false, false)) << family;
    EXPECT_EQ(reads(family, middle, false, false), family == "bert") << family;
  }
  EXPECT_TRUE(reads("gpt", middle, true, false));
  EXPECT_TRUE(reads("llama", middle, false, true));
  EXPECT_FALSE(reads("gpt", middle, false, true));  // positions enter with the embedding
}

// A position sees those of its document that are within the window, or in layers without one all of
// its document.
TEST(BatchInputs, WindowsEndWhereDocumentsBegin) {
  ModelConfig model = four_layers("llama");
  model.attention_window = 3;
  Batch batch(1, model.seq_length);
  std::fill(batch.first_visible.begin() + 4, batch.first_visible.end(), 4);
  using Seen = std::vector<std::int32_t>;
  for (const bool all : {true, false}) {
    if (!all) model.window_layers = {1, 2};
    for (const bool packed : {false, true}) {
      BuildOptions build;
      build.packed_documents = packed;
      Stage stage(build_model(model, build), {});
      stage.allocate();
      load_batch(stage, 0, batch);
      const auto seen = [&](BatchInput which) {
        const auto* first = static_cast<const std::int32_t*>(stage.batch(0, which));
        return first ? Seen(first, first + model.seq_length) : Seen();
      };
      EXPECT_EQ(seen(BatchInput::first_in_window), (Seen{0, 0, 0, 1, 4, 4}));
      EXPECT_EQ(seen(BatchInput::first_visible),
                !all && packed ? (Seen{0, 0, 0, 0, 4, 4}) : Seen());
    }
  }
  model.attention_window = 0;
  EXPECT_EQ(Stage(build_model(model, {}), {}).batch(0, BatchInput::first_in_window), nullptr);
}

TEST(Flops, CountThePairsThatAWindowLeaves) {
  ModelConfig model = four_layers("llama");
  const double all = training_flops_per_token(model);
  model.attention_window = static_cast<std::int64_t>(model.seq_length);
  EXPECT_EQ(training_flops_per_token(model), all);
  model.attention_window = 2;
  const double q = static_cast<double>(model.num_heads * model.head_dim);
  // Six positions see 1, 2, 2, 2, 2 and 2 others or themselves; halves of squares, as for all.
  const double hidden = 12 * q * (6 - 2 * (2 - 2.0 / 6));
  EXPECT_NEAR(all - training_flops_per_token(model), 4 * hidden, 1e-6);
  model.window_layers = {3};
  EXPECT_NEAR(all - training_flops_per_token(model), hidden, 1e-6);
}

// Six for every weight that a token meets, but for norms and the table of words.
TEST(Flops, CountTheWeightsOfLatentAttention) {
  for (const char* family : {"llama_latent", "llama_latent_plain"}) {
    const ModelConfig model = four_layers(family);
    double weights = 0;
    for (const Parameter& p : build_model(model, {}).parameters)
      if (p.name.find("norm") == std::string::npos && p.name != "embedding.word.weight")
        weights += static_cast<double>(p.spec.saved_shape.count());
    EXPECT_EQ(training_flops_per_token(model) - attention_flops_per_token(model), 6 * weights);
  }
}

// Mamba-2, an MLP, attention and another MLP: each layer counts for what it has.
TEST(Flops, CountTheOnlyPartOfALayer) {
  const ModelConfig model = tiny("llama_parts");
  double weights = 0;
  for (const Parameter& p : build_model(model, {}).parameters)
    if (p.name.ends_with(".weight") && p.name.find("norm") == std::string::npos &&
        p.name != "embedding.word.weight")
      weights += static_cast<double>(p.spec.saved_shape.count());
  EXPECT_EQ(training_flops_per_token(model) - attention_flops_per_token(model), 6 * weights);
  const double heads = 8 * (4 + 4), state = 2 * 8 * 3 * 5;
  EXPECT_EQ(attention_flops_per_token(model), 6 * (heads * 6 + state));
}

// A layer of one part adds to the residual stream once, so its output starts larger.
TEST(SinglePart, HasItsOwnTensorsAndStart) {
  ModelConfig model = tiny("llama_parts");
  std::map<std::string, ParameterSpec> specs;
  for (const Parameter& p : build_model(model, {}).parameters) specs.emplace(p.name, p.spec);
  for (const char* name : {"layers.0.input_norm.weight", "layers.0.linear_attention.out.weight",
                           "layers.1.mlp_norm.weight", "layers.1.mlp.up.weight",
                           "layers.2.input_norm.weight", "layers.2.attention.out.weight"})
    EXPECT_TRUE(specs.contains(name)) << name;
  for (const char* name :
       {"layers.0.mlp_norm.weight", "layers.0.mlp.up.weight", "layers.1.input_norm.weight",
        "layers.1.attention.out.weight", "layers.2.mlp_norm.weight", "layers.2.mlp.up.weight"})
    EXPECT_FALSE(specs.contains(name)) << name;
  EXPECT_DOUBLE_EQ(specs.at("layers.1.mlp.down.weight").init_std, model.init_std / 2);
}

}  // namespace
}  // namespace trireme
