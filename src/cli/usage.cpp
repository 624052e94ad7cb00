// Finds the word that the parser stumbled over.
#include "cli/usage.h"

#include <fmt/format.h>

#include "config/nearest.h"

namespace trireme::cli {
namespace {

// Groups of options are subcommands without a name.
std::vector<const CLI::App*> subcommands(const CLI::App& app, bool groups) {
  return app.get_subcommands(
      [=](const CLI::App* sub) { return sub->get_name().empty() == groups; });
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : subcommands(app, false)) names.push_back(sub->get_name());
  return names;
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* group : subcommands(app, true)) {
    for (std::string& name : flag_names(*group)) names.push_back(std::move(name));
  }
  return names;
}

std::string hint(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_name(word, candidates);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

}  // namespace

std::string usage_error(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const CLI::App* at = &app;
  std::string path = "trireme";
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    const std::vector<std::string> commands = command_names(*at);
    if (!word.starts_with("-") && !commands.empty()) {
      const auto known = std::find(commands.begin(), commands.end(), word);
      if (known == commands.end())
        return fmt::format("'{}' is no command of {}{}", word, path, hint(word, commands));
      at = at->get_subcommand(word);
      path += " " + word;
      continue;
    }
    if (!word.starts_with("--")) continue;
    word = word.substr(0, word.find('='));
    const std::vector<std::string> flags = flag_names(*at);
    if (std::find(flags.begin(), flags.end(), word) == flags.end()) {
      return fmt::format("'{}' is no flag of {}{}", word, path, hint(word, flags));
    }
  }
  return fmt::format("{}: {}", path, error.what());
}

}  // namespace trireme::cli
