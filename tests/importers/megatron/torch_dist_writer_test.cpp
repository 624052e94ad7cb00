// Distributed checkpoints of Megatron-Core that are written are read again bit for bit, with the
// states of Adam and the progress of the run; tests/reference has Megatron-Core load them.
#include "formats/megatron/torch_dist_writer.h"

#include <gmock/gmock.h>

#include "formats/assembled.h"
#include "formats/dcp/folder.h"
#include "formats/held_tensors.h"
#include "formats/megatron/names.h"
#include "formats/same_model.h"
#include "formats/weight_file.h"
#include "importers/megatron/arguments.h"
#include "importers/megatron/checkpoint.h"
#include "importers/megatron/saved_run.h"
#include "refusal.h"
#include "scratch_folder.h"
#include "tensors/optimizer_states.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class TorchDistWriter : public testing::Test {
 protected:
  using Change = std::function<void(ModelConfig&)>;
  static ModelConfig model(const std::string& family, const Change& change = {}) {
    ModelConfig m = small_model(family);
    if (change) change(m);
    resolve(m);
    validate(m);
    return m;
  }
  static ModelConfig with_experts(const Change& change = {}) {
    return model("llama", [&](ModelConfig& m) {
      m.moe.num_experts = 3;
      m.moe.ffn_hidden_size = 12;
      if (change) change(m);
    });
  }

  static CheckpointState state() {
    CheckpointState state;
    state.step = 7;
    state.consumed_samples = 56;
    state.counters = {{"optimizer_steps", 6}, {"scheduled_samples", 56}};
    return state;
  }

  // As Megatron-Bridge writes, if `told` is false: without the run's arguments.
  fs::path write(const Config& config, bool with_states, std::optional<DType> dtype = {},
                 bool told = true) {
    fs::remove_all(folder_ / "written");
    TorchDict arguments = megatron::arguments_of(config, {.kind = MegatronKind::distributed});
    arguments.insert(arguments.end(), more_arguments_.begin(), more_arguments_.end());
    const HeldTensors weights(config.model);
    TensorMapping mapping = weights.mapping();
    if (with_states) add_moments(mapping, moment_name);
    held_.emplace(mapping);
    const TensorAssembler assembler(held_->mapping(), Direction::to_theirs, *held_);
    TorchDict common = with_states ? megatron::saved_run(arguments, config, state())
                                   : megatron::saved_release(arguments);
    if (!told) std::erase_if(common, [](const TorchItem& item) { return item.key == "args"; });
    for (TorchItem& item : common)
      if (item.key == "optimizer" && optimizer_) item.value = *optimizer_;
    write_torch_dist_folder(folder_ / "written",
                            {config.model, common, 7, with_states, dtype, 100'000}, assembler);
    return folder_ / "written";
  }
  fs::path write(const ModelConfig& model, bool with_states = false) {
    Config config;
    config.model = model;
    return write(config, with_states);
  }

  TorchDict more_arguments_;
  std::optional<TorchValue> optimizer_;  // instead of the written one
  ScratchFolder folder_;
  std::optional<HeldTensors> held_;
};

TEST_F(TorchDistWriter, WhatIsWrittenIsReadAgain) {
  const std::pair<const char*, ModelConfig> models[] = {
      {"gpt", model("gpt")},
      {"untied", model("gpt",
                       [](ModelConfig& m) {
                         m.tie_embeddings = false;
                         m.given = {"tie_embeddings"};
                       })},
      {"norms of queries", model("llama", [](ModelConfig& m) { m.qk_norm = true; })},
      {"sinks", model("llama", [](ModelConfig& m) { m.attention_sinks = true; })},
      {"modules", model("llama", [](ModelConfig& m) { m.mtp_layers = 2; })},
      {"bert", model("bert", [](ModelConfig& m) { m.activation = MlpActivation::gelu_erf; })},
      {"experts", with_experts()},
      {"experts in some layers", with_experts([](ModelConfig& m) {
         m.moe.layers = {1, 2};
       })},
      {"modules with experts", with_experts([](ModelConfig& m) {
         m.moe.layers = {3};
         m.mtp_layers = 1;
         m.mtp_loss_scale = 0.25;
       })},
      {"biases", with_experts([](ModelConfig& m) {
         m.bias = m.qkv_bias = m.moe.linear_bias = m.moe.router_bias = true;
         m.given = {"bias", "qkv_bias"};
       })},
      {"balanced", with_experts([](ModelConfig& m) {
         m.moe.score = RouterScore::sigmoid;
         m.moe.expert_bias = true;
         m.moe.shared_ffn_hidden_size = 20;
         m.moe.shared_gate = true;
         m.moe.scaling_factor = 2.5;
         m.moe.aux_loss_coeff = 0.01;
       })}};
  for (const auto& [name, model] : models) {
    for (const bool with_states : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, {}", name, with_states));
      const ForeignModel back = megatron::open_torch_dist_folder(write(model, with_states));
      EXPECT_THAT(held_->missing_in(back), IsEmpty());
      EXPECT_EQ(back.note, "");
      EXPECT_TRUE(differences(model, back.model).empty());
    }
  }
}

// PyTorch's Adam counts the steps of each parameter, Transformer Engine's those of each group, and
// both keep the other count that they loaded; the run took 7 steps.
TEST_F(TorchDistWriter, ACountOfStepsThatWasLoadedIsNotTheOptimizers) {
  struct Case {
    double of_parameters;
    std::int64_t of_a_group, of_another, expected;  // 0: the states are left out
  };
  for (const Case& one : {Case{7, 7, 7, 7},
                          {7, 5, 5, 7},
                          {5, 7, 7, 7},
                          {6, 6, 6, 6},
                          {6, 5, 5, 0},
                          {5, 6, 6, 0},
                          {7, 7, 6, 0},
                          {7, 8, 8, 0}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", one.of_parameters, one.of_a_group, one.of_another));
    const TorchList groups{{TorchDict{{"step", {one.of_a_group}}}},
                           {TorchDict{{"step", {one.of_another}}}}};
    optimizer_ = {TorchDict{{"state", {TorchDict{{"common_step", {one.of_parameters}}}}},
                            {"param_groups", {groups}}}};
    const ForeignModel back = megatron::open_torch_dist_folder(write(model("gpt"), true));
    EXPECT_EQ(back.training ? back.training->optimizer_steps : 0, one.expected);
    EXPECT_EQ(back.note.empty(), one.expected > 0) << back.note;
    if (one.expected > 0) continue;
    EXPECT_THAT(back.note, HasSubstr("or says several"));
  }
}

// A run with maximal-update parametrization: its arguments scale logits, scores and learning rates.
TEST_F(TorchDistWriter, WidthsAreReadFromArguments) {
  Config config;
  config.model = model("llama");
  const auto& m = config.model;
  more_arguments_ = {{"use_mup", {true}},           {"mup_base_hidden_size", {m.hidden_size / 4}},
                     {"mup_base_head_dim", {4.0}},  {"mup_attn_scale_power", {1.0}},
                     {"mup_embedding_mult", {3.0}}, {"mup_output_mult", {1.0}},
                     {"mup_width_mult", {4.0}}};
  const ForeignModel back = megatron::open_torch_dist_folder(write(config, false));
  EXPECT_EQ(back.note, "");
  EXPECT_EQ(back.model.mup_base_hidden_size, m.hidden_size / 4);
  EXPECT_EQ(back.model.logit_multiplier, 0.25);
  EXPECT_EQ(back.model.embedding_multiplier, 3);
  EXPECT_EQ(back.model.attention_scale, 2.0 / static_cast<double>(m.head_dim));
  more_arguments_[0].value = {false};
  EXPECT_TRUE(differences(m, megatron::open_torch_dist_folder(write(config, false)).model).empty());
}

// The model and the optimizer of a run whose checkpoint has no arguments, but a file beside it.
TEST_F(TorchDistWriter, ARunIsDescribedBesideItsStep) {
  Config config;
  config.model = with_experts();
  config.train.global_batch_size = 8;
  config.optimizer.lr = 0.25;
  config.optimizer.beta2 = 0.75;
  const fs::path folder = write(config, true, {}, false);
  EXPECT_THAT(refusal_of([&] { megatron::open_torch_dist_folder(folder); }),
              HasSubstr("lacks 'args', the arguments of the run"));
  EXPECT_THAT(refusal_of([&] {
                megatron::open_torch_dist_folder(
                    folder, {}, [](const fs::path&) { return std::optional<Config>(); });
              }),
              HasSubstr("no run_config.yaml of Megatron-Bridge"));
  fs::path asked;
  const ForeignModel back = megatron::open_torch_dist_folder(folder, {}, [&](const fs::path& step) {
    asked = step;
    return std::optional(config);
  });
  EXPECT_EQ(asked.filename(), "iter_0000007");
  EXPECT_THAT(held_->missing_in(back), IsEmpty());
  EXPECT_TRUE(differences(config.model, back.model).empty());
  ASSERT_TRUE(back.training);
  EXPECT_EQ(back.training->step, 7);
  EXPECT_EQ(back.training->samples, 56);
  EXPECT_EQ(back.training->optimizer.lr, 0.25);
  EXPECT_EQ(back.training->optimizer.beta2, 0.75);
  config.model.num_layers += 1;
  EXPECT_THAT(refusal_of([&] {
                megatron::open_torch_dist_folder(
                    folder, {}, [&](const fs::path&) { return std::optional(config); });
              }),
              HasSubstr("its arguments say"));
}

TEST_F(TorchDistWriter, TheRunContinuesWhereItWas) {
  Config config;
  config.model = model("gpt");
  config.train.global_batch_size = 8;
  config.optimizer.lr = 0.25;
  config.optimizer.beta2 = 0.75;
  config.optimizer.weight_decay = 0.5;
  const ForeignModel back = megatron::open_torch_dist_folder(write(config, true));
  ASSERT_TRUE(back.training);
  EXPECT_EQ(back.training->step, 7);
  EXPECT_EQ(back.training->optimizer_steps, 6);
  EXPECT_EQ(back.training->samples, 56);
  EXPECT_EQ(back.training->optimizer.lr, 0.25);
  EXPECT_EQ(back.training->optimizer.beta2, 0.75);
  EXPECT_EQ(back.training->optimizer.weight_decay, 0.5);
  EXPECT_FALSE(megatron::open_torch_dist_folder(write(config, false)).training);
}

TEST_F(TorchDistWriter, NarrowWeightsComeWithTheOptimizersOwn) {
  Config config;
  config.model = model("llama");
  const ForeignModel back = megatron::open_torch_dist_folder(write(config, true, DType::bf16));
  EXPECT_THAT(held_->missing_in(back), IsEmpty());
  const ForeignModel alone = megatron::open_torch_dist_folder(write(config, false, DType::bf16));
  EXPECT_EQ(TensorAssembler(alone.mapping, Direction::to_ours, *alone.weights).dtype(0),
            DType::bf16);
}

// A reader that has one expert of one layer does not read the others.
TEST_F(TorchDistWriter, LayersAndExpertsLieApart) {
  const fs::path step = write(with_experts()) / "release";
  const DcpFolder folder(step);
  const DcpTensor* up = folder.find("decoder.layers.mlp.experts.experts.linear_fc1.weight");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(shape_text(up->shape), "[4,3,24,32]");
  EXPECT_EQ(up->chunks.size(), 12u);
  // Both kinds of Megatron's layers find the norm in front of the experts.
  for (const char* norm : {"mlp.linear_fc1.layer_norm_weight", "pre_mlp_layernorm.weight"})
    EXPECT_NE(folder.find(std::string("decoder.layers.") + norm), nullptr) << norm;
}

TEST_F(TorchDistWriter, ModelsThatMegatronDoesNotHaveAreRefused) {
  const auto refusal = [&](const ModelConfig& model) { return refusal_of([&] { write(model); }); };
  EXPECT_THAT(refusal(model("llama", [](ModelConfig& m) { m.logit_soft_cap = 30; })),
              HasSubstr("model.logit_soft_cap"));
  EXPECT_THAT(refusal(with_experts([](ModelConfig& m) {
                m.bias = true;
                m.given = {"bias"};
              })),
              HasSubstr("moe."));
  EXPECT_THAT(refusal(with_experts([](ModelConfig& m) {
                m.moe.score = RouterScore::sigmoid;
                m.moe.normalize_weights = false;
              })),
              HasSubstr("moe.normalize_weights"));
}

}  // namespace
}  // namespace trireme
