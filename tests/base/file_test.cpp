// Tests of files that are written completely or not at all.
#include "base/file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "traced.h"

namespace trireme {
namespace {

TEST(Files, ThatBelongTogetherAppearTogether) {
  const fs::path folder = fs::path(testing::TempDir()) / "trireme_files_together";
  fs::create_directories(folder);
  EXPECT_THROW(write_files_durably({{folder / "a", "1"}, {folder / "absent/b", "2"}}), Error);
  EXPECT_TRUE(fs::is_empty(folder));
  write_files_durably({{folder / "a", "1"}, {folder / "b", "2"}});
  EXPECT_EQ(read_file(folder / "a") + read_file(folder / "b"), "12");
  fs::remove_all(folder);
}

class NewFiles : public testing::Test {
 protected:
  NewFiles() { fs::create_directories(folder_); }
  ~NewFiles() override { fs::remove_all(folder_); }
  // The folder's name is unique per test, since tests may run concurrently.
  const fs::path folder_ =
      fs::canonical(testing::TempDir()) / fmt::format("trireme_new_files_{}", ::getpid());
};

TEST_F(NewFiles, HoldTheOldOrTheNewContentAfterAnyKill) {
  const fs::path path = folder_ / "file";
  const auto write_new = [&] { write_file_durably(path, "new"); };
  const int calls = run_traced(write_new).system_calls;
  int old = 0, replaced = 0;
  for (int kill_at = 0; kill_at < calls; ++kill_at) {
    write_file_durably(path, "old");
    EXPECT_TRUE(run_killed_at(kill_at, write_new).killed);
    const std::string content = read_file(path);
    (content == "old" ? old : replaced) += 1;
    EXPECT_TRUE(content == "old" || content == "new") << content;
  }
  EXPECT_GT(old, 0);
  EXPECT_GT(replaced, 0);
  write_new();
  EXPECT_EQ(read_file(path), "new");
}

TEST_F(NewFiles, AreSyncedBeforeTheirNameIs) {
  const std::string path = (folder_ / "file").string();
  const Traced traced = run_traced([&] { write_file_durably(path, "a"); });
  EXPECT_EQ(traced.calls,
            (std::vector<std::string>{"fsync " + path + ".tmp", "rename " + path + ".tmp",
                                      "fsync " + folder_.string()}));
}

TEST_F(NewFiles, FoldersAreSyncedUpToTheFirstThatWasThere) {
  const std::string top = folder_.string();
  const Traced traced = run_traced([&] { make_folders(folder_ / "a" / "b" / "c"); });
  EXPECT_EQ(traced.exit_code, 0);
  EXPECT_EQ(traced.calls,
            (std::vector<std::string>{"mkdir " + top + "/a", "mkdir " + top + "/a/b",
                                      "mkdir " + top + "/a/b/c", "fsync " + top + "/a/b",
                                      "fsync " + top + "/a", "fsync " + top}));
  EXPECT_EQ(run_traced([&] { make_folders(folder_ / "a" / "b" / "c"); }).calls,
            std::vector<std::string>{});
}

}  // namespace
}  // namespace trireme
