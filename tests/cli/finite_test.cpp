// Tests that every numeric option refuses non-finite values before anything else is checked.
#include <gmock/gmock.h>

#include <regex>
#include <sstream>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

struct NumericOption {
  std::vector<std::string> command;
  std::string name;
  bool real;
};

// Extracts the options from the manual page, which is generated from the parser's description.
std::vector<NumericOption> numeric_options(std::string page) {
  page = std::regex_replace(page, std::regex(R"(\\f[BIR]|\\(?=-))"), "");
  std::vector<NumericOption> found;
  std::vector<std::string> command;
  std::istringstream lines(page);
  const std::regex option(R"((?:-\w, )?(--[a-z0-9-]+)(?:, --[a-z0-9-]+)* (INT|UINT|FLOAT)\b.*)");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (line.starts_with(".SS trireme")) {
      std::istringstream words(line.substr(std::string(".SS trireme").size()));
      command.clear();
      for (std::string word; words >> word;) command.push_back(word);
    } else if (std::regex_match(line, match, option)) {
      found.push_back({command, match[1], match[2] == "FLOAT"});
    }
  }
  return found;
}

class FiniteNumbers : public Workspace {};

TEST_F(FiniteNumbers, AreAskedOfEveryOption) {
  const std::vector<NumericOption> options = numeric_options(run({"man"}).out);
  EXPECT_GE(std::ranges::count(options, true, &NumericOption::real), 15);
  EXPECT_GE(options.size(), 60U);
  for (const NumericOption& option : options) {
    for (const char* value : {"nan", "inf", "-inf", "1e999"}) {
      std::vector<std::string> words = option.command;
      words.push_back(option.name + "=" + value);
      const Outcome outcome = run(words);
      EXPECT_EQ(outcome.code, 2) << words[0] << " " << words.back() << "\n" << outcome.out;
      EXPECT_THAT(outcome.out, HasSubstr(option.name + " must be ")) << words[0];
      if (!option.real) break;  // integers are always finite
    }
  }
}

}  // namespace
}  // namespace trireme::testing_cli
