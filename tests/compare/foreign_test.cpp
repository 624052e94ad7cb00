// Folders of other programs next to checkpoints of ours.
#include <gmock/gmock.h>

#include "compare/checkpoints.h"
#include "compare/comparison.h"
#include "formats/dcp/export.h"
#include "formats/huggingface/export.h"
#include "formats/llama/export.h"
#include "importers/megatron/arguments.h"

namespace trireme::testing_compare {
namespace {

using testing::ElementsAre;
using testing::Field;

class ForeignFolders : public Folders {
 protected:
  static Comparison compare(const fs::path& a, const fs::path& b) {
    return trireme::compare(open_contents(a), open_contents(b), {});
  }
};

// Every kind of folder that the tests of formats have.
TEST_F(ForeignFolders, AreEqualToTheRunsThatAreMadeOfThem) {
  int number = 0;
  for (const char* name :
       {"hf/gpt2", "hf/llama", "hf/llama_tied", "hf/llama3_rope", "hf/bert", "torch/llama_bin",
        "torch/llama_meta", "torch/llama_core", "torch/gpt2_legacy", "torch/gpt2_version0",
        "torch/bert_legacy", "torch_dist/torch_dist", "torch_dist_flat/distributed",
        "megatron_optimizer/float32/legacy", "deepspeed/gpt2_fp16", "deepspeed/llama_zero3",
        "deepspeed/llama_universal"}) {
    SCOPED_TRACE(name);
    const fs::path run = import(name, fmt::format("run{}", ++number));
    const Comparison found = compare(foreign(name), run);
    EXPECT_TRUE(found.is_equal());
    EXPECT_GT(found.tensors, 0);
    EXPECT_EQ(found.equal, found.tensors);
  }
}

// One element of one tensor, in whatever format it is exported.
TEST_F(ForeignFolders, NameATensorThatWasChangedBeforeTheExport) {
  int number = 0;
  const auto try_format = [&](const char* name, const char* from, const auto& change) {
    SCOPED_TRACE(fmt::format("{} of {}", name, from));
    ++number;
    fs::path runs[2], exported[2];
    Held held = trained(from);
    const std::string tensor = "layers.0.attention.qkv.weight";
    for (const int i : {0, 1}) {
      runs[i] = path(fmt::format("run{}_{}", number, i));
      exported[i] = path(fmt::format("{}{}_{}", name, number, i));
      if (i == 1) held.tensors[tensor].at<float>(40) += 1;
      held.save(runs[i]);
      ExportRequest request{runs[i], exported[i], checkpoint_config(runs[i]), {}, {}, {}};
      change(request);
      find_written_format(name)->write(request);
    }
    const auto names_it = ElementsAre(Field(&TensorPair::name, tensor));
    const Comparison same = compare(exported[0], runs[0]);
    EXPECT_THAT(same.differing, ElementsAre());
    EXPECT_TRUE(same.positions.empty());
    EXPECT_THAT(compare(exported[0], exported[1]).differing, names_it);
    EXPECT_THAT(compare(runs[0], exported[1]).differing, names_it);
  };
  const auto as_it_is = [](ExportRequest&) {};
  try_format("hf", "hf/llama", as_it_is);
  try_format("hf", "hf/bert", as_it_is);
  try_format("hf", "hf/gpt2", [](ExportRequest& r) { r.options.files = HuggingFaceFiles::torch; });
  try_format("dcp", "hf/gpt2", as_it_is);
  for (const DcpNames names :
       {DcpNames::torchtitan, DcpNames::torchtitan_0_2, DcpNames::torchtitan_0_1})
    try_format("torchtitan", "hf/llama", [&](ExportRequest& r) { r.torchtitan = names; });
  for (const MegatronKind kind : {MegatronKind::transformer_engine, MegatronKind::local})
    try_format("megatron", "hf/llama",
               [&](ExportRequest& r) { r.layout = {.tp = 2, .pp = 2, .kind = kind}; });
  try_format("megatron", "hf/gpt2", [](ExportRequest& r) { r.layout.kind = MegatronKind::legacy; });
  for (const int tp : {1, 2})
    try_format("llama", "torch_dist/torch_dist", [&](ExportRequest& r) { r.layout.tp = tp; });
}

// Each shard in turn is replaced by that of a checkpoint in which one tensor differs.
TEST_F(ForeignFolders, NameTheTensorOfAShardOfAnotherCheckpoint) {
  const std::string tensor = "layers.1.mlp.down.weight";
  for (const auto& [name, files] : {std::pair{"hf", HuggingFaceFiles::safetensors},
                                    {"hf", HuggingFaceFiles::torch},
                                    {"dcp", HuggingFaceFiles::safetensors},
                                    {"torch_dist", HuggingFaceFiles::safetensors}}) {
    const std::string kind = fmt::format("{}{}", name, static_cast<int>(files));
    SCOPED_TRACE(kind);
    fs::path exported[2];
    Held held = trained();
    for (const int i : {0, 1}) {
      const fs::path run = path(fmt::format("run_{}{}", kind, i));
      exported[i] = path(fmt::format("{}_{}", kind, i));
      if (i == 1) held.tensors[tensor].at<float>(7) += 1;
      held.save(run);
      ExportRequest request{run, exported[i], checkpoint_config(run), {}, {}, {}};
      request.options.files = files;
      request.options.max_file_bytes = 12'000;
      find_written_format(name)->write(request);
    }
    int shards = 0, differing = 0;
    for (const auto& item : fs::recursive_directory_iterator(exported[1])) {
      const std::string extension = item.path().extension();
      if (extension != ".safetensors" && extension != ".bin" && extension != ".distcp") continue;
      ++shards;
      fs::remove_all(path("mixed"));
      fs::copy(exported[0], path("mixed"), fs::copy_options::recursive);
      fs::copy_file(item.path(), path("mixed") / fs::relative(item.path(), exported[1]),
                    fs::copy_options::overwrite_existing);
      const Comparison found = compare(exported[0], path("mixed"));
      if (found.is_equal()) continue;
      ++differing;
      EXPECT_THAT(found.differing, ElementsAre(Field(&TensorPair::name, tensor)));
    }
    EXPECT_GE(shards, 3);
    EXPECT_EQ(differing, 1);
  }
}

TEST_F(ForeignFolders, OfWeightsAreComparedWithWeights) {
  trained().save(path("a"));
  const Comparison found = compare(path("a"), foreign("hf/llama"));
  EXPECT_TRUE(found.is_equal());
  EXPECT_TRUE(found.lacks_states);
}

}  // namespace
}  // namespace trireme::testing_compare
