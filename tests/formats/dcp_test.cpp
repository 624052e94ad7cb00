// Folders that PyTorch's torch.distributed.checkpoint wrote give the bits of the same weights in
// safetensors, and the states of their optimizer.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>

#include "checkpoint/foreign.h"
#include "formats/assembled.h"
#include "formats/dcp/model.h"
#include "formats/dcp/writer.h"
#include "formats/huggingface/model.h"
#include "refusal.h"
#include "scratch_folder.h"
#include "tensors/optimizer_states.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

fs::path saved(const std::string& name) {
  return fs::path(TRIREME_TEST_DATA) / name;
}

fs::path config() {
  return saved("hf/llama/config.json");
}

class Dcp : public testing::Test {
 protected:
  // Copies a folder, to be damaged.
  fs::path copy(const std::string& name) {
    fs::remove_all(folder_ / "copy");
    fs::copy(saved(name), folder_ / "copy");
    return folder_ / "copy";
  }
  ScratchFolder folder_;
};

TEST_F(Dcp, WeightsUnderHuggingFacesNamesAreRead) {
  const ForeignModel model = open_dcp_folder(saved("dcp/huggingface"), {}, config());
  EXPECT_EQ(model.kind, "LlamaForCausalLM");
  auto tensors = assembled(model);
  const auto reference = assembled(open_huggingface_folder(saved("hf/llama")));
  for (const auto& [name, tensor] : reference) EXPECT_EQ(tensors.at(name), tensor) << name;
}

TEST_F(Dcp, WeightsUnderTorchtitansNamesAreRead) {
  const ForeignModel model = open_dcp_folder(saved("dcp/titan"), {}, config());
  EXPECT_THAT(differences(model, open_huggingface_folder(saved("hf/llama"))), IsEmpty());
  EXPECT_FALSE(model.training);
}

TEST_F(Dcp, StatesOfTheOptimizerComeAlong) {
  const ForeignModel model = open_dcp_folder(saved("dcp/huggingface"), {}, config());
  ASSERT_TRUE(model.training);
  EXPECT_EQ(model.training->step, 5);
  EXPECT_EQ(model.training->optimizer_steps, 3);
  EXPECT_EQ(model.training->optimizer.beta2, 0.95);
  EXPECT_EQ(model.training->optimizer.weight_decay, 0.1);
  EXPECT_TRUE(model.training->optimizer.decay_vectors);
  EXPECT_EQ(model.training->optimizer.lr, 1e-3);
  const TensorAssembler assembler(model.mapping, Direction::to_ours, *model.weights);
  for (std::size_t i = 0; i < assembler.targets().size(); ++i) {
    const std::string& name = assembler.targets()[i].name;
    if (!name.ends_with("_moment.embedding.word.weight")) continue;
    float values[2];
    assembler.produce(i, DType::f32, 16, 18, reinterpret_cast<std::byte*>(values));
    // The embedding is the first parameter.
    const float base = name == moment_name("embedding.word.weight", 0) ? 0 : 100;
    EXPECT_EQ(values[0], base + 16.0f / 65536);
    EXPECT_EQ(values[1], base + 17.0f / 65536);
  }
}

TEST_F(Dcp, TheModelMustBeSaid) {
  EXPECT_THAT(refusal_of([&] { open_dcp_folder(saved("dcp/titan")); }),
              AllOf(HasSubstr("--config FILE"), HasSubstr("[model]")));
  EXPECT_THAT(refusal_of([&] { open_dcp_folder(saved("dcp/titan"), {"model.preset=llama3-8b"}); }),
              HasSubstr("the shape"));
  EXPECT_THAT(refusal_of([&] { open_dcp_folder(saved("dcp/titan"), {}, saved("nothing.json")); }),
              HasSubstr("is not a file"));
}

TEST_F(Dcp, WhatIsMissingIsNamed) {
  fs::path folder = copy("dcp/titan");
  fs::remove(folder / "__2_0.distcp");
  EXPECT_THAT(refusal_of([&] { open_dcp_folder(folder, {}, config()); }),
              HasSubstr("'__2_0.distcp', which its .metadata refers to, is missing"));
  folder = copy("dcp/titan");
  fs::remove(folder / ".metadata");
  EXPECT_THAT(refusal_of([&] { open_dcp_folder(folder, {}, config()); }),
              AllOf(HasSubstr("has no '.metadata'"), HasSubstr("was interrupted")));
  folder = copy("dcp/titan");
  fs::resize_file(folder / "__1_0.distcp", 1000);
  EXPECT_THAT(refusal_of([&] { assembled(open_dcp_folder(folder, {}, config())); }),
              AllOf(HasSubstr("__1_0.distcp"), HasSubstr("a file that has 1000")));
}

// A tensor of a model with experts, as torch.distributed.checkpoint stores it.
struct SavedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
};

class DcpExperts : public Dcp {
 protected:
  static constexpr std::int64_t hidden = 16, inner = 12, count = 4, words = 32;

  fs::path config_of(const std::string& type) const {
    const std::string width = type == "mixtral" ? "intermediate_size" : "moe_intermediate_size";
    write_file_durably(
        folder_ / "config.json",
        fmt::format(R"({{"model_type": "{}", "hidden_size": {}, "{}": {}, "num_hidden_layers": 1,
                         "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8,
                         "vocab_size": {}, "num_{}experts": {}, "num_experts_per_tok": 2,
                         "intermediate_size": 12, "tie_word_embeddings": false}})",
                    type, hidden, width, inner, words, type == "mixtral" ? "local_" : "", count));
    return folder_ / "config.json";
  }
  // Returns values that no other tensor has.
  static std::vector<float> values_of(const SavedTensor& tensor) {
    std::int64_t size = 1;
    for (const std::int64_t one : tensor.shape) size *= one;
    std::vector<float> values(static_cast<std::size_t>(size));
    const std::size_t first = std::hash<std::string>()(tensor.name) % 1000;
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(first * 4096 + i);
    return values;
  }
  fs::path save(const std::vector<SavedTensor>& tensors) const {
    const fs::path to = folder_ / "dcp";
    fs::remove_all(to);
    make_folders(to);
    DcpWriter writer(to, std::uint64_t{1} << 30);
    for (const SavedTensor& tensor : tensors) {
      const std::vector<float> values = values_of(tensor);
      writer.begin({std::string("model"), tensor.name}, {DType::f32, tensor.shape});
      writer.write(values.data(), values.size() * sizeof(float));
    }
    writer.finish();
    return to;
  }
  static std::vector<SavedTensor> dense(bool qk_norm) {
    std::vector<SavedTensor> tensors = {
        {"model.embed_tokens.weight", {words, hidden}},
        {"model.norm.weight", {hidden}},
        {"lm_head.weight", {words, hidden}},
        {"model.layers.0.input_layernorm.weight", {hidden}},
        {"model.layers.0.post_attention_layernorm.weight", {hidden}},
        {"model.layers.0.mlp.gate.weight", {count, hidden}}};
    for (const char* name : {"q", "k", "v", "o"})
      tensors.push_back(
          {fmt::format("model.layers.0.self_attn.{}_proj.weight", name), {16, hidden}});
    for (const char* name : {"q", "k"})
      if (qk_norm)
        tensors.push_back({fmt::format("model.layers.0.self_attn.{}_norm.weight", name), {8}});
    return tensors;
  }
  static SavedTensor up() {
    return {"model.layers.0.mlp.experts.gate_up_proj", {count, 2 * inner, hidden}};
  }
  static SavedTensor down() {
    return {"model.layers.0.mlp.experts.down_proj", {count, hidden, inner}};
  }
};

TEST_F(DcpExperts, ThatTransformersHoldsInOneTensorAreRead) {
  for (const char* type : {"qwen3_moe", "mixtral"}) {
    SCOPED_TRACE(type);
    std::vector<SavedTensor> tensors = dense(type == std::string("qwen3_moe"));
    tensors.push_back(up());
    tensors.push_back(down());
    const auto got = assembled(open_dcp_folder(save(tensors), {}, config_of(type)));
    for (const auto& [ours, theirs] : {std::pair{"up", up()}, {"down", down()}}) {
      const std::vector<float> values = values_of(theirs);
      const std::string& tensor = got.at(fmt::format("layers.0.mlp.experts.{}.weight", ours));
      const std::string_view bytes(reinterpret_cast<const char*>(values.data()),
                                   values.size() * sizeof(float));
      EXPECT_TRUE(tensor.ends_with(bytes)) << ours;
    }
    EXPECT_TRUE(got.contains("layers.0.mlp.router.weight"));
  }
}

// Averaged weights under a shorter name are not taken for the model's.
TEST_F(DcpExperts, OneOfSeveralModelsIsNotChosen) {
  std::vector<SavedTensor> tensors = dense(true);
  tensors.push_back(up());
  tensors.push_back(down());
  EXPECT_NO_THROW(open_dcp_folder(save(tensors), {}, config_of("qwen3_moe")));
  tensors.push_back({"ema.model.embed_tokens.weight", {words, hidden}});
  EXPECT_THAT(refusal_of([&] { open_dcp_folder(save(tensors), {}, config_of("qwen3_moe")); }),
              AllOf(HasSubstr("several models"), HasSubstr(".ema.model.embed_tokens.weight'")));
}

TEST_F(DcpExperts, OfAnotherShapeAreRefused) {
  std::vector<SavedTensor> tensors = dense(true);
  tensors.push_back({up().name, {count, hidden, 2 * inner}});
  tensors.push_back(down());
  EXPECT_THAT(
      refusal_of([&] { assembled(open_dcp_folder(save(tensors), {}, config_of("qwen3_moe"))); }),
      HasSubstr("gate_up_proj"));
}

// accelerate writes the weights to one folder and the optimizer states to another.
TEST_F(Dcp, WeightsAndStatesInTwoFoldersAreReadTogether) {
  const fs::path whole = folder_ / "checkpoint-5";
  make_folders(whole);
  fs::copy(saved("dcp/huggingface"), whole / "pytorch_model_fsdp_0");
  fs::copy(saved("dcp/huggingface"), whole / "optimizer_0");
  const ForeignModel model = open_dcp_folder(whole, {}, config());
  ASSERT_TRUE(model.training);
  EXPECT_THAT(differences(model, open_dcp_folder(saved("dcp/huggingface"), {}, config())),
              IsEmpty());
  make_folders(whole / "pytorch_model_fsdp_1");
  write_file_durably(whole / "pytorch_model_fsdp_1/.metadata", "x");
  EXPECT_THAT(refusal_of([&] { open_dcp_folder(whole, {}, config()); }),
              HasSubstr("several models"));
}

TEST_F(Dcp, StatesOfAnotherModelAreNotPassedOver) {
  const fs::path whole = folder_ / "run/checkpoint-5";
  for (const char* other : {"optimizer_1", "optimizer_10"}) {
    for (const char* own : {"", "optimizer_0"}) {
      fs::remove_all(whole);
      make_folders(whole);
      for (const std::string name : {"pytorch_model_fsdp_0", other, own})
        if (!name.empty()) fs::copy(saved("dcp/huggingface"), whole / name);
      EXPECT_THAT(refusal_of([&] { open_dcp_folder(whole, {}, config()); }),
                  AllOf(HasSubstr(other), HasSubstr("expected in 'optimizer_0'")));
    }
  }
  EXPECT_THAT(describe_foreign(folder_ / "run"),
              HasSubstr(fmt::format("trireme convert {} RUN", whole.string())));
}

TEST_F(DcpExperts, StatesAloneAreNoModel) {
  const fs::path whole = folder_ / "checkpoint-5";
  make_folders(whole);
  fs::rename(save({{"lm_head.weight", {words, hidden}}}), whole / "pytorch_model_fsdp_0");
  DcpWriter writer((make_folders(whole / "optimizer_0"), whole / "optimizer_0"),
                   std::uint64_t{1} << 30);
  const float zero = 0;
  writer.begin({std::string("optimizer"), std::string("state"), std::string("lm_head.weight"),
                std::string("step")},
               {DType::f32, {}});
  writer.write(&zero, sizeof zero);
  writer.finish();
  EXPECT_THAT(refusal_of([&] { open_dcp_folder(whole / "optimizer_0"); }),
              AllOf(HasSubstr("holds the states of an optimizer and no weights"),
                    HasSubstr("pytorch_model_fsdp_0")));
}

}  // namespace
}  // namespace trireme
