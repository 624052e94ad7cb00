// Tests of control group limits, in folders like those of the kernel.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <limits>

#include "base/file.h"
#include "runtime/memory.h"

namespace trireme {
namespace {

class ControlGroups : public testing::Test {
 protected:
  ControlGroups()
      : root_(fs::path(testing::TempDir()) / ("trireme_groups" + std::to_string(::getpid()))) {
    fs::create_directories(root_);
  }
  ~ControlGroups() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  std::int64_t limit(const std::string& groups) const {
    write("self", groups);
    return control_group_memory_bytes((root_ / "self").string(), root_.string());
  }

  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  fs::path root_;
};

TEST_F(ControlGroups, OfVersion2AreLookedAtUpToTheRoot) {
  EXPECT_EQ(limit("0::/system.slice/slurm/job_7/step_0\n"), none);
  write("system.slice/slurm/job_7/step_0/memory.max", "max\n");
  write("system.slice/slurm/job_7/memory.max", "68719476736\n");
  write("system.slice/memory.max", "99999999999\n");
  EXPECT_EQ(limit("0::/system.slice/slurm/job_7/step_0\n"), 68719476736);
  EXPECT_EQ(limit("0::/system.slice/other\n"), 99999999999);
  EXPECT_EQ(limit("0::/elsewhere\n"), none);
}

TEST_F(ControlGroups, OfVersion1AreThoseOfTheMemoryController) {
  write("memory/slurm/uid_1/job_7/memory.limit_in_bytes", "4294967296\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit("11:cpu,cpuacct:/other\n4:memory:/slurm/uid_1/job_7/step_0\n0::/\n"), 4294967296);
  EXPECT_EQ(limit("11:cpu:/slurm/uid_1/job_7\n"), 9223372036854771712);
}

// In a container the process's own path does not exist, but the root is the container's.
TEST_F(ControlGroups, OfAContainerLieAtTheRoot) {
  write("memory.max", "1073741824\n");
  EXPECT_EQ(limit("0::/../../docker/abc\n"), 1073741824);
  EXPECT_EQ(limit("garbage\n"), 1073741824);
}

}  // namespace
}  // namespace trireme
