// A distributed checkpoint that megatron-core wrote on two processes gives what Megatron's older
// format holds of the same model (tests/formats/data/make_torch_dist_folders.py).
#include <gmock/gmock.h>

#include <cstring>

#include "base/file.h"
#include "formats/assembled.h"
#include "formats/megatron/torch_dist_folder.h"
#include "importers/megatron/checkpoint.h"
#include "refusal.h"
#include "scratch_folder.h"
#include "tensors/optimizer_states.h"

namespace trireme {
namespace {

using megatron::open_megatron_folder;
using megatron::open_torch_dist_folder;
using testing::AllOf;
using testing::HasSubstr;

fs::path folders_of(const std::string& name = "torch_dist") {
  return fs::path(TRIREME_TESTS) / "formats/data" / name;
}

// The elements of a tensor in fp32 that assembled() gives.
std::vector<float> elements(const std::string& tensor) {
  const std::string_view bytes = std::string_view(tensor).substr(tensor.find("] ") + 2);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class TorchDistFolders : public testing::Test {
 protected:
  TorchDistFolders() { fs::copy(folders_of() / "torch_dist", run_, fs::copy_options::recursive); }
  std::string refusal() const {
    return refusal_of([&] { assembled(open_torch_dist_folder(run_)); });
  }
  void write(const fs::path& file, const std::string& text) const {
    fs::remove(file);
    write_file_durably(file, text);
  }
  ScratchFolder folder_;
  const fs::path run_ = folder_ / "run", step_ = run_ / "iter_0000003";
};

// Those of torch_dist_flat lie in the buffers of the distributed optimizer, of two stages with two
// ranks each.
TEST_F(TorchDistFolders, HoldWhatTheOlderFormatHoldsAndTheMoments) {
  EXPECT_TRUE(is_torch_dist_folder(run_));
  EXPECT_TRUE(is_torch_dist_folder(step_));
  EXPECT_FALSE(is_torch_dist_folder(folders_of() / "legacy"));
  for (const char* name : {"torch_dist", "torch_dist_flat"}) {
    SCOPED_TRACE(name);
    const ForeignModel model = open_torch_dist_folder(folders_of(name) / "torch_dist");
    const auto got = assembled(model);
    const auto want = assembled(open_megatron_folder(folders_of(name) / "legacy"));
    EXPECT_EQ(got.size(), 3 * want.size());
    for (const auto& [tensor, values] : want) {
      EXPECT_EQ(got.at(tensor), values) << tensor;
      std::vector<float> half, square;
      for (const float value : elements(values)) {
        half.push_back(0.5f * value);
        square.push_back(value * value);
      }
      EXPECT_EQ(elements(got.at(moment_name(tensor, 0))), half) << tensor;
      EXPECT_EQ(elements(got.at(moment_name(tensor, 1))), square) << tensor;
    }
    ASSERT_TRUE(model.training.has_value());
    EXPECT_EQ(model.training->step, 3);
    EXPECT_EQ(model.training->optimizer_steps, 3);
    EXPECT_EQ(model.training->samples, 24);
  }
}

TEST_F(TorchDistFolders, RefuseWhatIsMissingOrOfAnotherFormat) {
  write(step_ / "metadata.json", R"({"sharded_backend": "zarr"})");
  EXPECT_THAT(refusal(), HasSubstr("sharded_backend is \"zarr\", and only \"torch_dist\" is read"));
  write(step_ / "metadata.json", R"({"sharded_backend": "torch_dist"})");
  EXPECT_EQ(refusal(), "accepted");
  fs::rename(step_ / "__1_0.distcp", step_ / "gone");
  EXPECT_THAT(refusal(), HasSubstr("__1_0.distcp"));
  fs::rename(step_ / "gone", step_ / "__1_0.distcp");
  fs::remove(step_ / "common.pt");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("has neither 'common.pt' nor the value"),
                               HasSubstr("common_state/shard_0_1")));
  write(run_ / "latest_checkpointed_iteration.txt", "4");
  EXPECT_THAT(refusal(), HasSubstr("names step 4"));
}

// Other programs have files of these names too.
TEST_F(TorchDistFolders, OtherFoldersAreNotTakenForOne) {
  for (const char* text : {R"({"format": "pt"})", "[1]", "{", ""}) {
    write(step_ / "metadata.json", text);
    EXPECT_FALSE(is_torch_dist_folder(step_)) << text;
    EXPECT_FALSE(is_torch_dist_folder(run_)) << text;
  }
}

TEST_F(TorchDistFolders, ATrackerOfAnotherFormatIsNoError) {
  for (const char* text : {"4", "", "global_step3", "release"}) {
    write(run_ / "latest_checkpointed_iteration.txt", text);
    EXPECT_FALSE(is_torch_dist_folder(run_)) << text;
  }
  write(run_ / "latest_checkpointed_iteration.txt", std::string(5000, '3'));
  EXPECT_FALSE(is_torch_dist_folder(run_));
}

TEST_F(TorchDistFolders, ARunWithOneStepNeedsNoTracker) {
  fs::remove(run_ / "latest_checkpointed_iteration.txt");
  EXPECT_TRUE(is_torch_dist_folder(run_));
  EXPECT_TRUE(open_torch_dist_folder(run_).training);
  fs::copy(step_, run_ / "iter_0000004", fs::copy_options::recursive);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("no file 'latest_checkpointed_iteration.txt'"),
                               HasSubstr("whole are iter_0000003 and iter_0000004"),
                               HasSubstr("trireme convert " + (run_ / "iter_0000004").string())));
}

TEST_F(TorchDistFolders, ATrackerThatIsAheadNamesTheWholeSteps) {
  make_folders(run_ / "iter_0000009/x");
  write(run_ / "latest_checkpointed_iteration.txt", "9");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("iter_0000009' is not whole"),
                               HasSubstr("whole is iter_0000003: trireme convert " +
                                         step_.string() + " RUN")));
  fs::remove_all(run_ / "iter_0000009");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("is not there"), HasSubstr("whole is iter_0000003")));
}

TEST_F(TorchDistFolders, ATrackerMayEndAsWindowsWritesLines) {
  write(run_ / "latest_checkpointed_iteration.txt", " 3\r\n");
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(TorchDistFolders, OfOtherBackendsSayWhatHelps) {
  write(step_ / "metadata.json", R"({"sharded_backend": "zarr"})");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("zarr"), HasSubstr("--ckpt-format torch_dist")));
}

}  // namespace
}  // namespace trireme
