// Tests of which checkpoint a folder resolves to after a save that was killed at any point, and of
// what is cleaned up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "checkpoint/layout.h"
#include "checkpoint/tidy.h"
#include "world.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::vector<TestTensor> tensors{{"weight", {8, 8}}};

class Resume : public testing::Test {
 protected:
  Resume() {
    save_whole(folder_, tensors, 10);
    save_whole(folder_, tensors, 20);
  }
  fs::path found() const { return find_checkpoint(folder_)->folder; }
  void set_time(const fs::path& path, int seconds_from_now) const {
    fs::last_write_time(path,
                        fs::file_time_type::clock::now() + std::chrono::seconds(seconds_from_now));
  }
  ScratchFolder folder_;
};

TEST_F(Resume, ACompleteStepThatIsNewerThanLatestCounts) {
  write_file_durably(folder_ / "latest", "step-00000010\n");  // as before the kill
  set_time(folder_ / "latest", -10);
  EXPECT_EQ(found(), folder_ / "step-00000020");
  EXPECT_THAT(find_checkpoint(folder_)->note, HasSubstr("was completed after it"));
  // Without a manifest the checkpoint is incomplete.
  fs::remove(folder_ / "step-00000020/manifest.json");
  EXPECT_EQ(found(), folder_ / "step-00000010");
}

// The user has gone back to step 10: later steps that were saved before belong to another branch.
TEST_F(Resume, LaterStepsOfAnotherBranchDoNotCount) {
  write_file_durably(folder_ / "latest", "step-00000010\n");
  set_time(folder_ / "latest", 10);
  EXPECT_EQ(found(), folder_ / "step-00000010");
  EXPECT_EQ(find_checkpoint(folder_)->note, "");
}

TEST_F(Resume, ALatestThatPointsNowhereLeadsToTheLastCompleteStep) {
  fs::remove_all(folder_ / "step-00000020");
  EXPECT_EQ(found(), folder_ / "step-00000010");
  EXPECT_THAT(find_checkpoint(folder_)->note, HasSubstr("which is not there"));
}

// The process was killed between the two renames used where names cannot be exchanged.
TEST_F(Resume, ACheckpointThatWasPutAsideIsFoundAndGetsItsNameBack) {
  fs::rename(folder_ / "step-00000020", folder_ / "step-00000020.old.tmp");
  fs::create_directory(folder_ / "step-00000020.tmp");
  EXPECT_EQ(found(), folder_ / "step-00000020.old.tmp");
  EXPECT_TRUE(holds(folder_, tensors));
  EXPECT_THAT(tidy_checkpoints(folder_), SizeIs(2));
  EXPECT_EQ(found(), folder_ / "step-00000020");
  EXPECT_TRUE(holds(folder_, tensors));
  EXPECT_THAT(partial_folders(folder_), IsEmpty());
}

// A save of another step by a program that has not cleaned up must not remove the only copy.
TEST_F(Resume, ACheckpointThatWasPutAsideSurvivesASave) {
  fs::rename(folder_ / "step-00000020", folder_ / "step-00000020.old.tmp");
  save_whole(folder_, tensors, 15);
  EXPECT_TRUE(fs::exists(folder_ / "step-00000020.old.tmp/manifest.json"));
}

TEST_F(Resume, WhatIsUnfinishedIsRemoved) {
  fs::create_directory(folder_ / "step-00000030.tmp");
  save_whole(folder_ / "elsewhere", tensors, 20);
  fs::rename(folder_ / "elsewhere/step-00000020", folder_ / "step-00000020.old.tmp");
  EXPECT_THAT(tidy_checkpoints(folder_), SizeIs(2));  // step 20 exists
  EXPECT_THAT(partial_folders(folder_), IsEmpty());
  EXPECT_EQ(found(), folder_ / "step-00000020");
  EXPECT_THAT(tidy_checkpoints(folder_), IsEmpty());
  EXPECT_THAT(tidy_checkpoints(folder_ / "nowhere"), IsEmpty());
}

}  // namespace
}  // namespace trireme
