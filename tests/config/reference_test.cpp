// The committed reference page agrees with the table of keys.
#include "config/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "config/fields.h"

namespace trireme {
namespace {

TEST(Reference, PageIsUpToDate) {
  const fs::path page = fs::path(TRIREME_TEST_DATA) / "../../../docs/configuration.md";
  if (std::getenv("TRIREME_UPDATE_DOCS")) write_file_durably(page, configuration_markdown());
  EXPECT_TRUE(read_file(page) == configuration_markdown())
      << "docs/configuration.md is old: run this test with TRIREME_UPDATE_DOCS=1";
}

TEST(Reference, HelpNamesEveryKey) {
  const std::string help = configuration_help();
  for (const Field& field : all_fields()) EXPECT_THAT(help, ::testing::HasSubstr(field.key()));
}

}  // namespace
}  // namespace trireme
