// Tests of the file progress that a process reports when several operations run at once.
#include "checkpoint/progress.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace trireme {
namespace {

std::string text_of(const FileProgress& progress) {
  const char* what = progress.state().what;
  return what ? what : "";
}

TEST(FileProgress, PhasesLieWithinOthers) {
  FileProgress progress;
  EXPECT_EQ(text_of(progress), "");
  {
    const FileProgress::Phase outer(&progress, "is exporting");
    {
      const FileProgress::Phase inner(&progress, "is writing");
      EXPECT_EQ(text_of(progress), "is writing");
    }
    EXPECT_EQ(text_of(progress), "is exporting");
  }
  EXPECT_EQ(text_of(progress), "");
}

// Of two threads, the one that started first may finish first.
TEST(FileProgress, PhasesEndInAnyOrder) {
  FileProgress progress;
  std::optional<FileProgress::Phase> first, second;
  first.emplace(&progress, "first");
  second.emplace(&progress, "second");
  first.reset();
  EXPECT_EQ(text_of(progress), "second");
  second.reset();
  EXPECT_EQ(text_of(progress), "");
}

}  // namespace
}  // namespace trireme
