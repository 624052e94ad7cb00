// Tests of the status that a run leaves behind when it could not report its own end.
#include "train/run/run_status.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "train/run/run_lock.h"

namespace trireme {
namespace {

class RunStatusFile : public testing::Test {
 protected:
  RunStatusFile() { fs::create_directories(folder_); }
  ~RunStatusFile() override { fs::remove_all(folder_); }
  nlohmann::json read() const {
    return nlohmann::json::parse(read_file(folder_ / "status.json", 1 << 20));
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("trireme_run_status" + std::to_string(::getpid()));
};

TEST_F(RunStatusFile, OnlyARunningRunBecomesAFailedOne) {
  mark_failed(folder_, "killed");
  EXPECT_FALSE(fs::exists(folder_ / "status.json"));
  write_status(folder_ / "status.json", {"running", 7, 20, 5, "", 4, 6, 3}, false);
  mark_failed(folder_, "killed");
  EXPECT_EQ(read()["state"], "failed");
  EXPECT_EQ(read()["reason"], "killed");
  EXPECT_EQ(read()["step"], 7);
  EXPECT_EQ(read()["steps"], 20);
  EXPECT_EQ(read()["saved_step"], 5);
  EXPECT_EQ(read()["ranks"], 4);
  EXPECT_EQ(read()["locally_saved_step"], 6);
  EXPECT_EQ(read()["locally_copied_step"], 3);
  for (const char* state : {"done", "stopped", "interrupted", "failed"}) {
    write_status(folder_ / "status.json", {state, 7, 20, 5, "as it was"}, false);
    mark_failed(folder_, "killed");
    EXPECT_EQ(read()["state"], state);
    EXPECT_EQ(read()["reason"], "as it was");
  }
  write_file_durably(folder_ / "status.json", "{\"state\": ");
  EXPECT_NO_THROW(mark_failed(folder_, "killed"));
}

TEST_F(RunStatusFile, ALockTellsWhetherARunHoldsTheFolder) {
  EXPECT_FALSE(is_locked(folder_.string()));
  {
    const RunLock lock(folder_.string());
    EXPECT_TRUE(is_locked(folder_.string()));
  }
  EXPECT_FALSE(is_locked(folder_.string()));
}

}  // namespace
}  // namespace trireme
