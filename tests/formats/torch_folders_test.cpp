// Tests that folders of torch.save files give the same bits as the weights in safetensors.
#include <gmock/gmock.h>

#include "base/json.h"
#include "formats/assembled.h"
#include "formats/huggingface/folder.h"
#include "formats/huggingface/model.h"
#include "formats/llama/folder.h"
#include "formats/torch/writer.h"
#include "refusal.h"
#include "scratch_folder.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

fs::path data(const std::string& name) {
  return fs::path(TRIREME_TEST_DATA) / name;
}

// A copy of a folder, to be damaged.
class TorchFolders : public testing::Test {
 protected:
  fs::path copy(const std::string& name) {
    fs::remove_all(folder_ / "copy");
    fs::copy(data(name), folder_ / "copy");
    return folder_ / "copy";
  }
  void edit(const fs::path& file, const std::function<void(nlohmann::json&)>& change) {
    auto json = nlohmann::json::parse(read_file(file));
    change(json);
    write_file_durably(file, json.dump());
  }
  ScratchFolder folder_;
};

TEST_F(TorchFolders, ShardsOfHuggingFaceAreRead) {
  const ForeignModel model = open_huggingface_folder(data("torch/llama_bin"));
  EXPECT_THAT(differences(model, open_huggingface_folder(data("hf/llama"))), IsEmpty());
}

TEST_F(TorchFolders, AMissingShardIsNamed) {
  const fs::path folder = copy("torch/llama_bin");
  fs::remove(folder / "pytorch_model-00002-of-00003.bin");
  EXPECT_THAT(refusal_of([&] { open_huggingface_folder(folder); }),
              AllOf(HasSubstr("pytorch_model.bin.index.json', '"),
                    HasSubstr("'pytorch_model-00002-of-00003.bin', but that file is missing")));
}

TEST_F(TorchFolders, LlamaAsMetaPublishesItIsRead) {
  const ForeignModel model =
      open_llama_folder(data("torch/llama_meta"), {"model.max_positions=24"});
  const ForeignModel reference = open_huggingface_folder(data("hf/llama"));
  // Ranks split the vocabulary evenly, so the source's last word is missing.
  EXPECT_THAT(differences(model, reference), ElementsAre("embedding.word.weight", "head.weight"));
  const auto got = assembled(model), want = assembled(reference);
  for (const char* name : {"embedding.word.weight", "head.weight"}) {
    const auto bytes = [&](const std::string& tensor) { return tensor.substr(tensor.find(']')); };
    EXPECT_EQ(bytes(got.at(name)), bytes(want.at(name)).substr(0, bytes(got.at(name)).size()));
  }
  EXPECT_EQ(model.model.rope_base, reference.model.rope_base);
  EXPECT_EQ(model.model.norm_eps, reference.model.norm_eps);
  EXPECT_EQ(model.model.max_positions, 24);
  EXPECT_EQ(model.model.vocab_size, 60);
}

TEST_F(TorchFolders, LlamaSaysWhatItAssumes) {
  EXPECT_THAT(open_llama_folder(data("torch/llama_meta")).note,
              AllOf(HasSubstr("model.max_positions=4096"), HasSubstr("--set")));
  const fs::path folder = copy("torch/llama_meta");
  edit(folder / "params.json", [](auto& json) {
    json["rope_theta"] = 500000.0;
    json["use_scaled_rope"] = true;
  });
  const ForeignModel model = open_llama_folder(folder);
  EXPECT_EQ(model.model.max_positions, 131072);
  EXPECT_EQ(model.model.rope_scaling, RopeScaling::llama3);
  EXPECT_EQ(model.model.rope_scaling_factor, 8);
  EXPECT_THAT(model.note, HasSubstr("model.rope_scaling_factor=8 and model.max_positions=131072"));
  edit(folder / "params.json", [](auto& json) {
    json["max_seq_len"] = 64;
    json["rope_scaling_factor"] = 32;
  });
  EXPECT_EQ(open_llama_folder(folder).note, "");
}

TEST_F(TorchFolders, WhatIsWrongWithALlamaIsNamed) {
  const auto with = [&](const char* key, const nlohmann::json& value) {
    const fs::path folder = copy("torch/llama_meta");
    edit(folder / "params.json", [&](auto& json) { json[key] = value; });
    return refusal_of([&] {
      const ForeignModel model = open_llama_folder(folder);
      assembled(model);
    });
  };
  EXPECT_THAT(with("moe_args", {{"num_experts", 16}}), HasSubstr("has the key 'moe_args'"));
  EXPECT_THAT(with("vocab_size", 64), AllOf(HasSubstr("[60,16] in 2 parts"),
                                            HasSubstr("expected [64, 16] from its params.json")));
  EXPECT_THAT(with("n_layers", 3), HasSubstr("no tensor for 'model.layers.2."));
  EXPECT_THAT(with("n_layers", 1), HasSubstr("'layers.1."));
  EXPECT_THAT(with("multiple_of", 32),
              AllOf(HasSubstr("an inner width of 64"), HasSubstr("24 rows")));
  EXPECT_THAT(with("n_heads", "4"), HasSubstr("n_heads"));
}

TEST_F(TorchFolders, SettingsLeaveNothingOutWithoutAWord) {
  const fs::path folder = data("torch/llama_meta");
  EXPECT_THAT(refusal_of([&] { open_llama_folder(folder, {"model.tie_embeddings=true"}); }),
              HasSubstr("'output.weight' differs from the embedding"));
  EXPECT_THAT(open_llama_folder(folder, {"model.norm_eps=0.5"}).note,
              HasSubstr("by --set, model.norm_eps"));
}

TEST_F(TorchFolders, AMissingRankOfALlamaIsNamed) {
  const fs::path folder = copy("torch/llama_meta");
  fs::rename(folder / "consolidated.01.pth", folder / "kept");
  EXPECT_THAT(refusal_of([&] { open_llama_folder(folder); }),
              AllOf(HasSubstr("has 1 file"), HasSubstr("2 files were expected")));
  fs::remove(folder / "consolidated.00.pth");
  fs::rename(folder / "kept", folder / "consolidated.01.pth");
  EXPECT_THAT(refusal_of([&] { open_llama_folder(folder); }),
              HasSubstr("does not contain 'consolidated.00.pth'"));
  fs::remove(folder / "params.json");
  EXPECT_THAT(refusal_of([&] { open_llama_folder(folder); }),
              HasSubstr("does not contain 'params.json'"));
}

// One rank is from another step: its norms, which all ranks have, differ.
TEST_F(TorchFolders, RanksOfTwoStepsAreNamed) {
  const fs::path folder = copy("torch/llama_meta");
  const auto file = open_weight_file(folder / "consolidated.01.pth");
  TorchDict tensors;
  for (const WeightEntry& entry : file->tensors())
    tensors.push_back({entry.name, {TorchTensor{*entry.dtype, entry.shape}}});
  TorchWriter writer(folder / "other", {tensors});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const WeightEntry& entry = file->tensors()[i];
    std::vector<float> values(static_cast<std::size_t>(entry.count()));
    file->read(entry, 0, entry.count(), reinterpret_cast<std::byte*>(values.data()));
    if (entry.name == "layers.1.ffn_norm.weight") values[3] += 1;
    writer.write(i, 0, values.data(), values.size() * sizeof(float));
  }
  writer.finish();
  fs::rename(folder / "other", folder / "consolidated.01.pth");
  EXPECT_THAT(refusal_of([&] { open_llama_folder(folder); }),
              AllOf(HasSubstr("layers.1.ffn_norm.weight"), HasSubstr("from different steps")));
}

}  // namespace
}  // namespace trireme
