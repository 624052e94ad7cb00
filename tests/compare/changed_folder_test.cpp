// Folders of other programs that are changed in place, in one thing: it is named, and nothing else.
#include "compare/changed_folder.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "compare/checkpoints.h"
#include "compare/comparison.h"

namespace trireme::testing_compare {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::ThrowsMessage;

const std::string accelerate = "accelerate";

// A folder of the tests of formats, or `accelerate`.
struct Saved {
  std::string name;
  bool has_states = false;
  bool has_copies = false;  // the ranks of tensor parallelism have copies of norms
  std::string folder;       // of its files below
  // Files of two ranks that are exchanged, and what is then said. "" if the folder is read: what
  // the ranks have a half of each differs then.
  std::string one, other, refusal;
  // The pickle with the position, under one of these keys.
  std::string file, samples, step;
};

const std::vector<Saved>& saved() {
  static const std::string in_args = "consumed_train_samples";
  static const std::vector<Saved> all{
      {"hf/llama"},
      {"hf/bert"},
      {"torch/llama_bin", false, false, "", "pytorch_model-00001-of-00003.bin",
       "pytorch_model-00002-of-00003.bin",
       "pytorch_model-00002-of-00003.bin' contains 'model.embed_tokens.weight', but "},
      {"torch/llama_meta", false, true, "", "consolidated.00.pth", "consolidated.01.pth"},
      {"torch/llama_core", false, true, "iter_0000100", "mp_rank_00", "mp_rank_01"},
      {"torch/bert_legacy", false, true, "iter_0000100", "mp_rank_00", "mp_rank_01"},
      {"torch/gpt2_version0", false, true, "iter_0000100", "mp_rank_00", "mp_rank_01"},
      {"torch/gpt2_legacy", false, true, "iter_0000100", "mp_rank_00_000", "mp_rank_00_001",
       "the folders of its ranks have other names than they were saved with"},
      {"megatron_optimizer/float32/legacy", true, false, "iter_0000003", "", "", "",
       "model_optim_rng.pt", in_args},
      {"megatron_optimizer/bfloat16/legacy", true, true, "iter_0000003", "mp_rank_00", "mp_rank_01",
       "", "model_optim_rng.pt", in_args},
      {"torch_dist_flat/distributed", true, false, "iter_0000003", "mp_rank_00_000",
       "mp_rank_00_001", "the folders of its ranks have other names than they were saved with",
       "model_optim_rng.pt", in_args},
      {"torch_dist/torch_dist", true, false, "iter_0000003", "__1_0.distcp", "__1_1.distcp", "",
       "common.pt", in_args},
      {"torch_dist_flat/torch_dist", true, false, "iter_0000003", "__0_0.distcp", "__2_0.distcp",
       "but .metadata says that it is a tensor of shape", "common.pt", in_args},
      {"deepspeed/gpt2_fp16", true, false, "", "", "", "", "mp_rank_00_model_states.pt", in_args,
       "iteration"},
      {"deepspeed/gpt2_pipe", true, true, "global_step3",
       "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
       "bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt", "should be the rounded value of its fp32",
       "mp_rank_00_model_states.pt", in_args},
      {"deepspeed/llama_zero2", true, false, "global_step3",
       "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
       "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt", "the files do not belong together",
       "mp_rank_00_model_states.pt", in_args, "iteration"},
      {"deepspeed/llama_zero3", true, false, "global_step3",
       "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
       "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt", "",
       "zero_pp_rank_0_mp_rank_00_model_states.pt", in_args, "iteration"},
      {"deepspeed/llama_universal", true, false, "global_step3_universal/zero",
       "language_model.encoder.layers.0.self_attention.dense.weight",
       "language_model.encoder.layers.1.self_attention.dense.weight", "",
       "mp_rank_00_model_states.pt", in_args, "iteration"},
      {"dcp/titan", false, false, "", "__0_0.distcp", "__1_0.distcp"},
      {"dcp/huggingface", true, false, "", "__0_0.distcp", "__1_0.distcp",
       "is not a torch.save file"},
      {accelerate, true},
  };
  return all;
}

const std::string weight = "layers.0.attention.out.weight";
constexpr std::int64_t element = 4;

class ChangedFolders : public Folders {
 protected:
  // Accelerate saves weights and states apart, each as DCP.
  fs::path folder_of(const Saved& saved) const {
    if (saved.name != accelerate) return foreign(saved.name);
    fs::create_directories(path("apart"));
    for (const char* part : {"pytorch_model_fsdp_0", "optimizer_0"})
      if (!fs::exists(path("apart") / part))
        fs::copy(foreign("dcp/huggingface"), path("apart") / part);
    return path("apart");
  }

  Contents open(const Saved& saved, const fs::path& folder) const {
    ForeignOptions options;
    if (saved.name.starts_with("dcp/") || saved.name == accelerate)
      options.config = foreign("hf/llama/config.json");
    return open_contents(folder, options);
  }

  // Of the folder and what `change` makes of a copy.
  template <class Change>
  Comparison changed(const Saved& saved, const Change& change) {
    fs::remove_all(path("copy"));
    const ChangedFolder copy(folder_of(saved), path("copy"));
    const Contents contents = open(saved, folder_of(saved));
    change(copy, contents);
    const Comparison found = compare(contents, open(saved, path("copy")), {});
    EXPECT_EQ(found.lacks_states, !saved.has_states);
    return found;
  }

  void expect_element_named(const Saved& saved, const std::string& tensor) {
    const Comparison found = changed(saved, [&](const auto& copy, const Contents& contents) {
      EXPECT_GE(copy.change_element(contents, tensor, element), 1);
    });
    ASSERT_THAT(found.differing, ElementsAre(Field(&TensorPair::name, tensor)));
    EXPECT_EQ(found.first()->difference->differing(), 1);
    EXPECT_EQ(found.first()->difference->first().element, element);
    EXPECT_THAT(found.positions, IsEmpty());
  }

  void expect_positions(const Saved& saved, const std::string& key,
                        const std::vector<std::string>& names) {
    const Comparison found = changed(saved, [&](const auto& copy, const Contents&) {
      EXPECT_GE(copy.change_number(key, saved.file), 1);
    });
    std::vector<std::string> differing;
    for (const ValuePair& position : found.positions) differing.push_back(position.name);
    EXPECT_THAT(differing, ElementsAreArray(names));
    EXPECT_THAT(found.differing, IsEmpty());
  }
};

TEST_F(ChangedFolders, NameOneElementAndOneMoment) {
  for (const Saved& folder : saved()) {
    SCOPED_TRACE(folder.name);
    expect_element_named(folder, weight);
    if (!folder.has_states) continue;
    expect_element_named(folder, moment_name(weight, 0));
    expect_element_named(folder, moment_name("final_norm.weight", 1));
  }
}

TEST_F(ChangedFolders, NameOnePosition) {
  for (const Saved& folder : saved()) {
    SCOPED_TRACE(folder.name);
    if (!folder.samples.empty())
      expect_positions(folder, folder.samples,
                       {"consumed_samples", "consumed_tokens", "scheduled_samples"});
    if (!folder.step.empty()) expect_positions(folder, folder.step, {"step"});
  }
}

TEST_F(ChangedFolders, NameOrRefuseExchangedShards) {
  for (const Saved& folder : saved()) {
    if (folder.one.empty()) continue;
    SCOPED_TRACE(folder.name);
    const fs::path in = folder.folder;
    const auto compare_exchanged = [&] {
      return changed(folder, [&](const auto& copy, const Contents&) {
        copy.exchange(in / folder.one, in / folder.other);
      });
    };
    if (!folder.refusal.empty()) {
      EXPECT_THAT(compare_exchanged, ThrowsMessage<Error>(HasSubstr(folder.refusal)));
      continue;
    }
    const Comparison found = compare_exchanged();
    EXPECT_THAT(found.differing, Contains(Field(&TensorPair::name, weight)));
    if (folder.has_states) {
      EXPECT_THAT(found.differing, Contains(Field(&TensorPair::name, moment_name(weight, 1))));
    }
    if (!folder.has_copies) continue;
    EXPECT_THAT(found.differing, Not(Contains(Field(&TensorPair::name, "final_norm.weight"))));
  }
}

// As if one rank's file were of another checkpoint.
TEST_F(ChangedFolders, RefuseCopiesThatDiffer) {
  for (const Saved& folder : saved()) {
    if (!folder.has_copies) continue;
    SCOPED_TRACE(folder.name);
    const auto compare_one_changed = [&] {
      return changed(folder, [](const auto& copy, const Contents& contents) {
        EXPECT_EQ(copy.change_last_copy(contents, "final_norm.weight", element), 2);
      });
    };
    EXPECT_THAT(compare_one_changed, ThrowsMessage<Error>(HasSubstr("should be equal to")));
  }
}

}  // namespace
}  // namespace trireme::testing_compare
