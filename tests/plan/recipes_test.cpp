// Tests of the recipes: the planning command in each file works, and its plan fits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "config/config.h"
#include "plan/layout_plan.h"
#include "plan/verdict.h"
#include "runtime/devices.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

const fs::path recipe_folder = (fs::path(TRIREME_TESTS) / "../recipes").lexically_normal();
// Recipes that one machine trains in minutes do not set a layout.
const std::set<std::string> without_layout = {"bert_tiny", "quickstart", "quickstart_experts"};

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(recipe_folder)) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() == ".toml" && !without_layout.contains(name))
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Returns the words after "trireme plan" in the file's own comment.
std::vector<std::string> plan_words(const fs::path& file) {
  std::ifstream stream(file);
  const std::string command = "# Plan it anywhere: trireme plan ";
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(command)) continue;
    std::istringstream text(line.substr(command.size()));
    std::vector<std::string> words;
    for (std::string word; text >> word;) words.push_back(word);
    return words;
  }
  return {};
}

class Recipe : public testing::TestWithParam<std::string> {};

TEST_P(Recipe, FitsAsItSays) {
  const fs::path file = recipe_folder / (GetParam() + ".toml");
  const std::vector<std::string> words = plan_words(file);
  ASSERT_GE(words.size(), 5u)
      << "no line '# Plan it anywhere: trireme plan FILE --ranks N --memory M'";
  EXPECT_EQ(words[0], "recipes/" + GetParam() + ".toml");
  EXPECT_EQ(words[1], "--ranks");
  EXPECT_EQ(words[3], "--memory");
  const int ranks = std::stoi(words[2]);
  Config config = load_config(file, {words.begin() + 5, words.end()});
  EXPECT_EQ(config.run.dir, "runs/" + GetParam());
  validate(config);
  validate_layout(config, ranks);
  EXPECT_THAT(layout_notes(config, ranks), testing::IsEmpty());
  assume_vocabulary(config);
  const LayoutPlan plan = plan_layout(config, ranks, target_of(config.run.device));
  const Verdict verdict = judge(plan, config, ranks, parse_byte_size(words[4], "--memory"));
  EXPECT_TRUE(verdict.fits()) << to_text(verdict);
  // The size in a heading must be correct up to rounding.
  std::ifstream stream(file);
  std::string heading;
  std::getline(stream, heading);
  const std::size_t parameters = heading.find(" million parameters"),
                    billions = heading.find(" billion parameters");
  const std::size_t end = std::min(parameters, billions);
  if (end == std::string::npos) return;
  const double said =
      std::stod(heading.substr(heading.rfind(' ', end - 1) + 1)) * (end == parameters ? 1e6 : 1e9);
  EXPECT_NEAR(static_cast<double>(plan.parameters) / said, 1, 0.05) << plan.parameters;
}

INSTANTIATE_TEST_SUITE_P(All, Recipe, testing::ValuesIn(recipe_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trireme
