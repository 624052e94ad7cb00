// Extracts the command tree from the parser.
#include "cli/command_tree.h"

namespace trireme::cli {
namespace {

CommandOption described(const CLI::Option& option) {
  CommandOption one;
  for (const std::string& name : option.get_snames()) one.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) one.names.push_back("--" + name);
  one.positional = one.names.empty();
  if (one.positional) one.names.push_back(option.get_name(true));
  one.description = option.get_description();
  if (option.get_items_expected_max() != 0) one.value = option.get_type_name();
  return one;
}

// Option groups are unnamed subcommands; options without a group are hidden from users.
void add_options(const CLI::App& app, Command& command) {
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) command.options.push_back(described(*option));
  for (const CLI::App* group :
       app.get_subcommands([](const CLI::App* sub) { return sub->get_name().empty(); }))
    add_options(*group, command);
}

Command read(const CLI::App& app, const std::string& path) {
  Command command{path, app.get_description(), app.get_footer()};
  add_options(app, command);
  for (const CLI::App* sub :
       app.get_subcommands([](const CLI::App* each) { return !each->get_name().empty(); }))
    command.commands.push_back(
        read(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name()));
  return command;
}

void collect(const Command& command, std::vector<const Command*>& all) {
  all.push_back(&command);
  for (const Command& sub : command.commands) collect(sub, all);
}

}  // namespace

bool Command::takes_overrides() const {
  for (const CommandOption& option : options)
    if (option.positional && option.description.find("section.key=value") != std::string::npos)
      return true;
  return false;
}

Command command_tree(const CLI::App& app) {
  return read(app, "");
}

std::vector<const Command*> all_commands(const Command& root) {
  std::vector<const Command*> all;
  collect(root, all);
  return all;
}

}  // namespace trireme::cli
