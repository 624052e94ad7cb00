// The program's commands as data, from which completions and the manual page are
// generated.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace trireme::cli {

struct CommandOption {
  std::vector<std::string> names;  // "-o", "--output"; only its name for a positional
  std::string description;
  std::string value;  // "TEXT", "INT"; "" for a flag
  bool positional = false;
};

struct Command {
  std::string path;  // "data merge"; "" for the program itself
  std::string description, footer;
  std::vector<CommandOption> options;
  std::vector<Command> commands;

  std::string name() const { return path.substr(path.rfind(' ') + 1); }
  // Whether section.key=value arguments are accepted.
  bool takes_overrides() const;
};

Command command_tree(const CLI::App& app);

// Returns the command and all its descendants, parents first.
std::vector<const Command*> all_commands(const Command& root);

}  // namespace trireme::cli
