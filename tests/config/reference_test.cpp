// Tests that the committed reference page matches the table of keys.
#include "config/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include <set>
#include <sstream>

#include "base/file.h"
#include "config/fields.h"

namespace trireme {
namespace {

TEST(Reference, PageIsUpToDate) {
  const fs::path page = fs::path(TRIREME_TESTS) / "../docs/configuration.md";
  if (std::getenv("TRIREME_UPDATE_DOCS")) write_file_durably(page, configuration_markdown());
  EXPECT_TRUE(read_file(page) == configuration_markdown())
      << "docs/configuration.md is old: run this test with TRIREME_UPDATE_DOCS=1";
}

TEST(Reference, HelpNamesEveryKey) {
  const std::string help = configuration_help();
  for (const Field& field : all_fields()) EXPECT_THAT(help, ::testing::HasSubstr(field.key()));
}

// Returns the template with commented-out keys ("# key = ...") enabled.
std::string with_every_key(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find(" = ");
    if (line.starts_with("# ") && equals != line.npos &&
        line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", 2) == equals)
      line = line.substr(2);
    result += line + "\n";
  }
  return result;
}

TEST(Reference, TemplateTrainsAndHasEveryKeyAtItsDefault) {
  const std::string text = configuration_template();
  const Config config = parse_config(text, "template");
  EXPECT_NO_THROW(validate(config));
  Config defaults;
  defaults.model.preset = "gpt2-124m";
  defaults.train.iters = 1000;
  defaults.optimizer.lr = 3e-4;
  Config all = parse_config(with_every_key(text), "template");
  for (const Field& field : all_fields()) {
    EXPECT_THAT(text, testing::ContainsRegex("\n(# )?" + field.name + " = ")) << field.key();
    if (field.section == "model") continue;  // set by the preset and the family
    EXPECT_EQ(toml_value(field.slot(all)), toml_value(field.slot(defaults))) << field.key();
  }
}

// Collects identifiers after "." or "->".
void add_members(const std::string& code, std::set<std::string>& members) {
  const std::string letters = "abcdefghijklmnopqrstuvwxyz_0123456789";
  for (std::size_t at = code.find_first_of(".>"); at != code.npos;
       at = code.find_first_of(".>", at + 1)) {
    const std::size_t end = code.find_first_not_of(letters, at + 1);
    if (end > at + 1) members.insert(code.substr(at + 1, end - at - 1));
  }
}

// A key that no code reads would be silently ignored.
TEST(Reference, EveryKeyIsReadOutsideOfTheConfiguration) {
  const fs::path sources = fs::path(TRIREME_TESTS) / "../src";
  std::set<std::string> members;
  for (const auto& entry : fs::recursive_directory_iterator(sources)) {
    const std::string path = entry.path().lexically_normal().string();
    const bool reads = path.find("/src/importers/megatron/") == path.npos &&
                       !path.ends_with("config/fields.cpp") && !path.ends_with("config/config.h");
    if (entry.is_regular_file() && reads) add_members(read_file(entry.path()), members);
  }
  for (const Field& field : all_fields()) EXPECT_TRUE(members.contains(field.name)) << field.key();
}

}  // namespace
}  // namespace trireme
