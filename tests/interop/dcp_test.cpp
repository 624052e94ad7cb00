// Folders that PyTorch's torch.distributed.checkpoint wrote give the bits of the same weights in
// safetensors, and the states of their optimizer.
#include <gmock/gmock.h>

#include "interop/assembled.h"
#include "interop/optimizer_states.h"
#include "refusal.h"
#include "scratch_folder.h"

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
  // A copy of a folder, to be damaged.
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
              HasSubstr("lacks '__2_0.distcp'"));
  folder = copy("dcp/titan");
  fs::remove(folder / ".metadata");
  EXPECT_THAT(refusal_of([&] { open_dcp_folder(folder, {}, config()); }),
              AllOf(HasSubstr("lacks '.metadata'"), HasSubstr("cut off")));
  folder = copy("dcp/titan");
  fs::resize_file(folder / "__1_0.distcp", 1000);
  EXPECT_THAT(refusal_of([&] { assembled(open_dcp_folder(folder, {}, config())); }),
              AllOf(HasSubstr("__1_0.distcp"), HasSubstr("a file that has 1000")));
}

}  // namespace
}  // namespace trireme
