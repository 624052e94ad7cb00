// Tests of system errors as our errors: whose fault they are, and their wording.
#include "base/as_error.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>

namespace trireme {
namespace {

namespace fs = std::filesystem;

Error caught(std::errc code, const fs::path& first, const fs::path& second = {}) {
  return as_error(
      fs::filesystem_error("words of the library", first, second, make_error_code(code)));
}

TEST(AsError, NamesThatLeadNowhereAreTheUsersAndTheRestAreFailures) {
  using enum std::errc;
  for (const std::errc code : {no_such_file_or_directory, not_a_directory, is_a_directory,
                               filename_too_long, too_many_symbolic_link_levels, permission_denied,
                               operation_not_permitted, read_only_file_system}) {
    EXPECT_EQ(caught(code, "a").code(), ExitCode::bad_input) << caught(code, "a").what();
  }
  for (const std::errc code : {no_space_on_device, io_error, directory_not_empty, file_exists,
                               too_many_files_open, cross_device_link}) {
    EXPECT_EQ(caught(code, "a").code(), ExitCode::failed) << caught(code, "a").what();
  }
}

TEST(AsError, NamesThePaths) {
  EXPECT_STREQ(caught(std::errc::no_space_on_device, "a").what(),
               "cannot use 'a': No space left on device");
  EXPECT_STREQ(caught(std::errc::io_error, "a", "b").what(),
               "cannot use 'a' or 'b': Input/output error");
}

TEST(AsError, KeepsOursAndTakesOthersForFailures) {
  const Error ours = as_error(Error(ExitCode::interrupted, "stopped"));
  EXPECT_EQ(ours.code(), ExitCode::interrupted);
  EXPECT_STREQ(ours.what(), "stopped");
  EXPECT_STREQ(as_error(std::bad_alloc()).what(), "out of memory");
  EXPECT_EQ(as_error(std::bad_alloc()).code(), ExitCode::failed);
  EXPECT_STREQ(as_error(std::runtime_error("other")).what(), "other");
}

}  // namespace
}  // namespace trireme
