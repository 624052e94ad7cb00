// A folder for the files of one test, removed with the object.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/file.h"

namespace trireme {

// Uses a memory file system if there is one: saving syncs often, which is slow on a disk.
class ScratchFolder {
 public:
  ScratchFolder()
      : path_(fs::path(fs::exists("/dev/shm") ? "/dev/shm" : testing::TempDir()) /
              fmt::format("trireme_{}_{}_{}", ::getpid(), test_name(), counter_++)) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  operator const fs::path&() const { return path_; }
  fs::path operator/(std::string_view name) const { return path_ / name; }

 private:
  static std::string test_name() {
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(name, '/', '_');  // in names of parameterized tests
    return name;
  }

  static inline int counter_ = 0;
  fs::path path_;
};

}  // namespace trireme
