// Tests that checkpoints of other programs are recognized by the names of their files.
#include "checkpoint/foreign.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Foreign : public testing::Test {
 protected:
  ~Foreign() override { fs::remove_all(folder_); }

  // Returns the message about a folder with these files.
  std::string with(const std::vector<std::string>& files) const {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const std::string& file : files) {
      fs::create_directories((folder_ / file).parent_path());
      std::ofstream(folder_ / file) << "x";
    }
    return describe_foreign(folder_);
  }

  std::string command_for(const char* below) const {
    return "trireme convert " + folder_.string() + below + " RUN";
  }

  fs::path folder_ =
      fs::path(testing::TempDir()) / ("trireme_foreign_" + std::to_string(::getpid()));
};

TEST_F(Foreign, FormatsAreToldApart) {
  EXPECT_THAT(with({"latest", "global_step8000/mp_rank_00_model_states.pt"}),
              AllOf(HasSubstr("a DeepSpeed checkpoint"), HasSubstr("_model_states.pt"),
                    HasSubstr(command_for("/global_step8000"))));
  EXPECT_THAT(with({"latest_checkpointed_iteration.txt", "iter_0001000/mp_rank_00/x"}),
              HasSubstr("a Megatron checkpoint"));
  EXPECT_THAT(with({"iter_0001000/mp_rank_00/model_optim_rng.pt"}),
              HasSubstr("a Megatron checkpoint ('iter_0001000/mp_rank_00/model_optim_rng.pt')"));
  EXPECT_THAT(with({"step-1000/.metadata", "step-1000/__0_0.distcp"}), HasSubstr("(DCP)"));
  EXPECT_THAT(with({"params.json", "consolidated.00.pth"}),
              AllOf(HasSubstr("as Meta publishes"), HasSubstr(command_for(""))));
  EXPECT_THAT(with({"config.json", "pytorch_model-00001-of-00002.bin"}),
              AllOf(HasSubstr("with PyTorch files"), HasSubstr("pytorch_model-00001-of-00002.bin"),
                    HasSubstr(command_for(""))));
  EXPECT_THAT(with({"config.json", "model.safetensors"}), HasSubstr("a Hugging Face model"));
  EXPECT_THAT(with({"model.pt"}), HasSubstr("a PyTorch checkpoint ('model.pt')"));
}

TEST_F(Foreign, WhatConvertCouldNotReadIsNotGivenToConvertAgain) {
  with({"model-00001-of-00002.safetensors"});
  EXPECT_THAT(describe_incomplete(folder_),
              AllOf(HasSubstr("a Hugging Face model"), HasSubstr("of which files are missing")));
  with({"old/model-00001-of-00002.safetensors"});
  EXPECT_THAT(describe_incomplete(folder_), HasSubstr(command_for("/old")));
}

TEST_F(Foreign, NothingIsSaidAboutAnythingElse) {
  EXPECT_EQ(with({"notes.txt", "a/b/c/d/model.pt"}), "");
  EXPECT_EQ(describe_foreign(folder_ / "nowhere"), "");
}

// A file suffix alone means little: any working folder may have such a file somewhere.
TEST_F(Foreign, EndingsCountInTheFolderOnly) {
  EXPECT_EQ(with({"old/model.pt", "old/best.ckpt"}), "");
  EXPECT_THAT(with({"best.ckpt"}), HasSubstr("a Lightning checkpoint"));
}

TEST_F(Foreign, ARunMayBeginNextToOtherFiles) {
  with({"model.pt", "old/model_optim_rng.pt", "best.ckpt"});
  EXPECT_EQ(describe_foreign_run(folder_), "");
  with({"iter_0001000/mp_rank_00/model_optim_rng.pt"});
  EXPECT_THAT(describe_foreign_run(folder_), HasSubstr("a Megatron checkpoint ('iter_0001000')"));
  with({"global_step8000/mp_rank_00_model_states.pt", "zero_to_fp32.py"});
  EXPECT_THAT(describe_foreign_run(folder_), HasSubstr("a DeepSpeed checkpoint"));
  with({"model-00001-of-00002.safetensors", "model.safetensors.index.json"});
  EXPECT_THAT(describe_foreign_run(folder_), HasSubstr("a Hugging Face model"));
  with({"checkpoints/step-00000010/manifest.json", "model.safetensors"});
  EXPECT_EQ(describe_foreign_run(folder_), "") << "a run of ours";
  EXPECT_EQ(describe_foreign_run(folder_ / "nowhere"), "");
}

TEST_F(Foreign, AFileIsRecognizedToo) {
  with({"consolidated.00.pth"});
  EXPECT_THAT(describe_foreign(folder_ / "consolidated.00.pth"), HasSubstr("as Meta publishes"));
}

}  // namespace
}  // namespace trireme
