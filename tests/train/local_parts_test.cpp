// Tests of which rank keeps copies of whose local checkpoints, and which part each rank takes.
#include "train/checkpoints/local_parts.h"

#include <gmock/gmock.h>

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CopyHolders, AreOnTheNextNode) {
  EXPECT_THAT(copy_holders({"a", "b"}), ElementsAre(1, 0));
  EXPECT_THAT(copy_holders({"a", "a", "b", "b", "c", "c"}), ElementsAre(2, 3, 4, 5, 0, 1));
  // Round-robin placement, and nodes of different sizes.
  EXPECT_THAT(copy_holders({"a", "b", "a", "b"}), ElementsAre(1, 0, 3, 2));
  EXPECT_THAT(copy_holders({"a", "a", "a", "b"}), ElementsAre(3, 3, 3, 0));
  EXPECT_THAT(copy_holders({"b", "a", "a"}), ElementsAre(1, 0, 0));
}

TEST(CopyHolders, DoNotExistOnOneNode) {
  EXPECT_THAT(copy_holders({"a"}), IsEmpty());
  EXPECT_THAT(copy_holders({"a", "a", "a"}), IsEmpty());
}

class NewestStep : public testing::Test {
 protected:
  void add(int reader, int owner, bool copy, std::int64_t step, const std::string& branch = "b",
           const std::string& layout = "") {
    found_.push_back(
        {reader, owner, copy, step, branch, layout.empty() ? layouts_[owner] : layout});
  }
  // "STEP: READER of each rank, with c for a copy".
  std::string newest() const {
    const auto step = newest_step(found_, layouts_);
    if (!step) return "none";
    std::string text = std::to_string(step->step) + ":";
    for (const LocalPart& part : step->parts)
      text += " " + std::to_string(part.reader) + (part.copy ? "c" : "");
    return text;
  }

  const std::vector<std::string> layouts_{"x", "y", "z"};
  std::vector<LocalPart> found_;
};

TEST_F(NewestStep, IsOneThatAllRanksHaveSaved) {
  EXPECT_EQ(newest(), "none");
  for (int rank = 0; rank < 3; ++rank) add(rank, rank, false, 6);
  add(0, 0, false, 8);
  add(2, 2, false, 8);
  EXPECT_EQ(newest(), "6: 0 1 2");
  add(2, 1, true, 8);
  EXPECT_EQ(newest(), "8: 0 2c 2");
}

TEST_F(NewestStep, TakesWhatIsNearest) {
  add(1, 0, true, 4);
  add(0, 0, true, 4);
  add(2, 1, false, 4);  // the node's ranks had other numbers
  add(0, 1, true, 4);
  add(0, 2, true, 4);
  add(2, 2, false, 4);
  EXPECT_EQ(newest(), "4: 0c 2 2");
}

TEST_F(NewestStep, IsOfOneBranchAndOfThisLayout) {
  for (int rank = 0; rank < 3; ++rank) add(rank, rank, false, 4, "old");
  add(0, 0, false, 6, "old");
  add(1, 1, false, 6, "new");
  add(2, 2, false, 6, "new");
  EXPECT_EQ(newest(), "4: 0 1 2");
  add(1, 0, true, 6, "new", "another");
  add(1, 7, true, 6, "new", "x");
  EXPECT_EQ(newest(), "4: 0 1 2");
  add(1, 0, true, 6, "new");
  EXPECT_EQ(newest(), "6: 1c 1 2");
}

TEST_F(NewestStep, PartsAreSentAsText) {
  add(1, 0, true, 4);
  add(2, 2, false, 123456789012);
  EXPECT_EQ(parts_of_text(to_text(found_)), found_);
  EXPECT_THAT(parts_of_text(""), IsEmpty());
}

TEST(LocalFolders, AreThoseOfRanks) {
  const fs::path run = fs::path(testing::TempDir()) / "local_folders";
  fs::remove_all(run);
  EXPECT_THAT(local_folders(run), IsEmpty());
  for (const char* name : {"rank-00003", "copy-00012", "rank-", "copy-1x", "other", "rank--0001"})
    fs::create_directories(run / name);
  std::vector<std::string> found;
  for (const LocalFolder& folder : local_folders(run)) {
    EXPECT_EQ(folder.path, local_folder(run, folder.owner, folder.copy));
    found.push_back(folder.path.filename());
  }
  EXPECT_THAT(found, testing::UnorderedElementsAre("rank-00003", "copy-00012"));
  fs::remove_all(run);
}

}  // namespace
}  // namespace trireme
