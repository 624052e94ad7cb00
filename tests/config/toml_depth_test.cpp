// Tests that keys with many parts are detected before the library recurses into them; numbers,
// texts and comments with dots are not mistaken for keys.
#include "config/toml_depth.h"

#include <gmock/gmock.h>

#include <string>

#include "base/error.h"
#include "config/config.h"

namespace trireme {
namespace {

std::string key_of(int parts) {
  std::string key = "a";
  for (int i = 1; i < parts; ++i) key += ".a";
  return key;
}

TEST(TomlDepth, TheLineOfADeepKeyIsFound) {
  const std::string deep = key_of(max_toml_key_parts + 1);
  EXPECT_EQ(line_of_deep_key(key_of(max_toml_key_parts) + " = 1\n"), 0);
  EXPECT_EQ(line_of_deep_key("b = 1\n" + deep + " = 1\n"), 2);
  EXPECT_EQ(line_of_deep_key("[" + deep + "]\n"), 1);
  EXPECT_EQ(line_of_deep_key("b = {" + deep + " = 1}\n"), 1);
  EXPECT_EQ(line_of_deep_key("'b' . \"c\"." + deep + " = 1\n"), 1);
}

TEST(TomlDepth, OtherDotsAreNone) {
  const std::string dots = key_of(100);
  EXPECT_EQ(line_of_deep_key("b = '" + dots + "' # " + dots + "\n"), 0);
  EXPECT_EQ(line_of_deep_key("b = \"\"\"\n" + dots + "\n\\\"\"\" " + dots + "\"\"\"\n"), 0);
  std::string numbers = "b = [0.5";
  for (int i = 0; i < 100; ++i) numbers += ", 1.5";
  EXPECT_EQ(line_of_deep_key(numbers + "]\n"), 0);
}

// 50,000 parts used to overflow the stack.
TEST(TomlDepth, AConfigurationWithADeepKeyIsRefused) {
  const std::string deep = key_of(50'000);
  for (const auto& [text, overrides] : {std::pair{deep + " = 1\n", std::vector<std::string>{}},
                                        {std::string(), {"train.iters={" + deep + "=1}"}},
                                        {std::string(), {"data.path=[{" + deep + "=1}]"}}})
    try {
      parse_config(text, "run.toml", overrides);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      EXPECT_THAT(error.what(), testing::HasSubstr("more than 32 parts"));
    }
}

}  // namespace
}  // namespace trireme
