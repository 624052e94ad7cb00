// The commands of the program as data, for what is made of their descriptions: completions and the
// manual page.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace trireme::cli {

struct CommandOption {
  std::vector<std::string> names;  // "-o", "--output"; for a positional only its name
  std::string description;
  std::string value;  // "TEXT", "INT"; "" of a flag
  bool positional = false;
};

struct Command {
  std::string path;  // "data merge"; "" of the program itself
  std::string description, footer;
  std::vector<CommandOption> options;
  std::vector<Command> commands;

  std::string name() const { return path.substr(path.rfind(' ') + 1); }
  // Whether section.key=value may follow.
  bool takes_overrides() const;
};

Command command_tree(const CLI::App& app);

// The command and all below it, each before those below it.
std::vector<const Command*> all_commands(const Command& root);

}  // namespace trireme::cli
