// Folders that DeepSpeed wrote give the weights in fp32 and the moments that DeepSpeed itself gives
// (tests/formats/data/make_deepspeed_folders.py).
#include <gmock/gmock.h>

#include "formats/assembled.h"
#include "formats/deepspeed/folder.h"
#include "formats/deepspeed/names.h"
#include "formats/deepspeed/universal_states.h"
#include "importers/megatron/checkpoint.h"
#include "refusal.h"
#include "scratch_folder.h"
#include "tensors/optimizer_states.h"
#include "tensors/safetensors.h"

namespace trireme {
namespace {

using megatron::open_deepspeed_folder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

fs::path deepspeed_data(const std::string& name) {
  return fs::path(TRIREME_TESTS) / "formats/data/deepspeed" / name;
}

// The names whose tensors are not those of expected.safetensors, as far as these have rows.
std::vector<std::string> unexpected(const ForeignModel& model, const fs::path& folder) {
  const SafetensorsFile file(folder / "expected.safetensors");
  auto got = assembled(model);
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : file.tensors()) {
    const std::string& tensor = got[entry.name];
    const auto bytes = file.bytes(entry);
    const std::string want(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!tensor.ends_with(want) || !tensor.starts_with("f32 [")) names.push_back(entry.name);
    got.erase(entry.name);
  }
  for (const auto& [name, tensor] : got) names.push_back(name);
  return names;
}

class DeepspeedFolders : public testing::Test {
 protected:
  fs::path copy(const std::string& name) {
    fs::remove_all(folder_ / "copy");
    fs::copy(deepspeed_data(name), folder_ / "copy", fs::copy_options::recursive);
    return folder_ / "copy";
  }
  static std::string refusal(const fs::path& folder) {
    return refusal_of([&] { assembled(open_deepspeed_folder(folder)); });
  }
  ScratchFolder folder_;
};

TEST_F(DeepspeedFolders, GiveWhatDeepspeedGives) {
  for (const char* name : {"gpt2_pipe", "llama_zero2", "llama_zero3", "llama_universal"}) {
    SCOPED_TRACE(name);
    const ForeignModel model = open_deepspeed_folder(deepspeed_data(name));
    EXPECT_THAT(unexpected(model, deepspeed_data(name)), IsEmpty());
    ASSERT_TRUE(model.training);
    EXPECT_EQ(model.training->step, 3);
    EXPECT_EQ(model.training->optimizer_steps, 3);
    EXPECT_EQ(model.training->samples, 24);
    EXPECT_EQ(model.training->optimizer.lr, 1e-3);
    EXPECT_EQ(model.training->optimizer.beta2, 0.95);
    EXPECT_EQ(model.model.tie_embeddings, std::string(name) == "gpt2_pipe");
  }
}

// Without ZeRO, in fp16: the states of a group of parameters are one vector, which names none of
// them. The optimizer begins with a step of its own.
TEST_F(DeepspeedFolders, OptimizersWithoutZeroAreRead) {
  const ForeignModel model = open_deepspeed_folder(deepspeed_data("gpt2_fp16"));
  EXPECT_THAT(unexpected(model, deepspeed_data("gpt2_fp16")), IsEmpty());
  ASSERT_TRUE(model.training);
  EXPECT_EQ(model.training->step, 8);
  EXPECT_EQ(model.training->optimizer_steps, 9);
  EXPECT_THAT(model.note, HasSubstr("the model computed in F16"));
}

// Without the files of ZeRO weights have the type of the model, and training starts over.
TEST_F(DeepspeedFolders, WeightsAloneAreRead) {
  const fs::path folder = copy("gpt2_pipe");
  const ForeignModel whole = open_deepspeed_folder(folder);
  for (const auto& item : fs::directory_iterator(folder / "global_step3")) {
    if (item.path().string().ends_with("_optim_states.pt")) fs::remove(item.path());
  }
  const ForeignModel model = open_deepspeed_folder(folder / "global_step3");
  EXPECT_FALSE(model.training);
  const auto tensors = assembled(model);
  EXPECT_TRUE(tensors.at("layers.1.mlp.up.weight").starts_with("bf16 "));
  EXPECT_EQ(tensors.size() * 3, assembled(whole).size());
}

TEST_F(DeepspeedFolders, WhatIsMissingIsNamed) {
  const auto without = [&](const char* name, const char* file) {
    const fs::path folder = copy(name);
    fs::remove(folder / "global_step3" / file);
    return refusal(folder);
  };
  EXPECT_THAT(without("gpt2_pipe", "mp_rank_03_model_states.pt"),
              AllOf(HasSubstr("lacks 'mp_rank_03_model_states.pt'"), HasSubstr("2 x 2 ranks"),
                    HasSubstr("3 ranks are there")));
  EXPECT_THAT(without("gpt2_pipe", "layer_03-model_01-model_states.pt"),
              AllOf(HasSubstr("lacks 'layer_03-model_01-model_states.pt'"), HasSubstr("2 ranks")));
  EXPECT_THAT(without("gpt2_pipe", "bf16_zero_pp_rank_0_mp_rank_02_optim_states.pt"),
              AllOf(HasSubstr("zero_pp_rank_0_mp_rank_02_optim_states.pt'"), HasSubstr("1 rank ")));
  EXPECT_THAT(without("llama_zero2", "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"),
              AllOf(HasSubstr("zero_pp_rank_1_mp_rank_00_optim_states.pt'"), HasSubstr("3 ranks")));
}

// A layer of tensor rank 1 in the place of rank 0's: its weights are not those of the optimizer.
TEST_F(DeepspeedFolders, FilesThatDoNotBelongTogetherAreNamed) {
  const fs::path step = copy("gpt2_pipe") / "global_step3";
  fs::copy_file(step / "layer_02-model_01-model_states.pt",
                step / "layer_02-model_00-model_states.pt", fs::copy_options::overwrite_existing);
  EXPECT_THAT(refusal(step), AllOf(HasSubstr("layer_02-model_00-model_states.pt"),
                                   HasSubstr("from different steps")));
}

TEST_F(DeepspeedFolders, ExpertsAreRefused) {
  const fs::path step = copy("llama_zero2") / "global_step3";
  fs::copy_file(step / "mp_rank_00_model_states.pt",
                step / "layer_0_expert_1_mp_rank_00_model_states.pt");
  EXPECT_THAT(refusal(step), HasSubstr("experts"));
}

TEST_F(DeepspeedFolders, UniversalCheckpointsHoldEachParameterOnce) {
  const std::string step = "global_step3_universal";
  const std::string norm = "language_model.encoder.layers.1.input_layernorm.weight";
  const std::string words = "language_model.embedding.word_embeddings.weight";
  const auto changed = [&](const auto& change) {
    const fs::path folder = copy("llama_universal");
    change(folder / step / "zero");
    return refusal(folder);
  };
  const auto put = [&](const std::string& from, const std::string& to) {
    return [=](const fs::path& zero) {
      fs::copy(zero / from, zero / to,
               fs::copy_options::overwrite_existing | fs::copy_options::recursive);
    };
  };
  EXPECT_THAT(changed([&](const fs::path& zero) { fs::remove_all(zero / norm); }),
              AllOf(HasSubstr("lacks the folder of the parameter '" + norm),
                    HasSubstr("mp_rank_00_model_states.pt")));
  EXPECT_THAT(changed([&](const fs::path& zero) { fs::remove(zero / norm / "exp_avg_sq.pt"); }),
              AllOf(HasSubstr(norm), HasSubstr("lacks 'exp_avg_sq.pt'")));
  EXPECT_THAT(changed(put(norm, "another.weight")),
              AllOf(HasSubstr("holds 'another.weight'"), HasSubstr("param_shapes")));
  EXPECT_THAT(changed(put(words + "/exp_avg.pt", norm + "/exp_avg.pt")),
              AllOf(HasSubstr(norm + "/exp_avg.pt'"), HasSubstr("was expected")));
  // A moment's file holds a tensor and not a number of steps.
  EXPECT_THAT(changed(put(norm + "/exp_avg.pt", norm + "/step.pt")),
              HasSubstr("a number was expected"));
}

TEST_F(DeepspeedFolders, AStepThatIsNotThereIsNamed) {
  const fs::path folder = copy("llama_universal");
  write_file_durably(folder / "latest_universal", "global_step4_universal");
  EXPECT_TRUE(is_deepspeed_folder(folder));
  EXPECT_THAT(refusal(folder), HasSubstr("names the step \"global_step4_universal\""));
}

// DeepSpeed says of the two halves of a gated parameter whether it joined them apart.
TEST_F(DeepspeedFolders, RowsOfGatesAreCertainOrRefused) {
  const fs::path zero = deepspeed_data("llama_universal") / "global_step3_universal/zero";
  const std::string layer = "language_model.encoder.layers.1.";
  EXPECT_NO_THROW(require_halves_joined_apart(zero, layer + "mlp.dense_h_to_4h.weight"));
  EXPECT_THAT(
      refusal_of([&] { require_halves_joined_apart(zero, layer + "mlp.dense_4h_to_h.weight"); }),
      AllOf(HasSubstr("param_n_sub_params 2"), HasSubstr("mlp.dense_4h_to_h.weight")));
}

TEST(MegatronNames, ATensorWithoutTheEndingOfOneIsUnknown) {
  EXPECT_EQ(megatron_name("output_layer").ours, "");
  EXPECT_EQ(megatron_name("decoder.layers.0.mlp.linear_fc2").ours, "");
  EXPECT_EQ(megatron_name("decoder.layers.0.mlp.linear_fc2.bias").ours, "mlp.down.bias");
  EXPECT_EQ(megatron_name("output_layer.weight").ours, "head.weight");
}

TEST(DeepspeedNames, ModulesOfAPipelineAreToldByTheirNames) {
  // With and without functions between them, which have numbers too.
  const DeepspeedNames names({"3.mlp.dense_h_to_4h.weight", "4.mlp.dense_h_to_4h.weight",
                              "6.weight", "6.bias", "1.word_embeddings.weight",
                              "9.lm_head.weight"});
  EXPECT_EQ(names.layers(), 2);
  EXPECT_EQ(names.ours("4.mlp.dense_h_to_4h.weight").ours, "mlp.up.weight");
  EXPECT_EQ(names.ours("4.mlp.dense_h_to_4h.weight").layer, 1);
  EXPECT_EQ(names.ours("6.bias").ours, "final_norm.bias");
  EXPECT_EQ(names.ours("9.lm_head.weight").ours, "head.weight");
  EXPECT_EQ(names.ours("tied_modules.embed.position_embeddings.weight").ours,
            "embedding.position.weight");
  EXPECT_EQ(names.ours("7.weight").ours, "");
  EXPECT_THAT(numbers_in("layer_07-model_12-model_states.pt", "layer_#-model_#-model_states.pt"),
              ElementsAre(7, 12));
  EXPECT_THAT(numbers_in("layer_07-model_12", "layer_#-model_#-model_states.pt"), IsEmpty());
}

}  // namespace
}  // namespace trireme
