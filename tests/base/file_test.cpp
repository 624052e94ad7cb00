// Files that are written as a whole or not at all.
#include "base/file.h"

#include <gtest/gtest.h>

#include "base/error.h"

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

}  // namespace
}  // namespace trireme
