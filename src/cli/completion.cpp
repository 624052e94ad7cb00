// `trireme completion`: shell scripts that complete commands, flags and configuration
// keys.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "cli/command_tree.h"
#include "cli/commands.h"
#include "config/fields.h"

namespace trireme::cli {
namespace {

// A possible next word, with its description.
struct Word {
  std::string text, description;
};

std::vector<Word> words_after(const Command& command) {
  std::vector<Word> words;
  for (const Command& sub : command.commands) words.push_back({sub.name(), sub.description});
  for (const CommandOption& option : command.options)
    for (const std::string& name : option.names)
      if (name.starts_with("--")) words.push_back({name, option.description});
  return words;
}

std::vector<Word> keys() {
  std::vector<Word> words;
  for (const Field& field : all_fields()) words.push_back({field.key() + "=", field.description});
  return words;
}

// Quotes text for a shell; shells agree on everything except how to escape the quote itself.
std::string quoted(const std::string& text, std::string_view quote) {
  std::string all = "'";
  for (const char c : text) {
    if (c == '\'')
      all += quote;
    else
      all += c == '\n' ? ' ' : c;
  }
  return all + "'";
}

// Shell code that sets `path` to the commands before the cursor (" data merge"); bash and zsh.
std::string path_of_words(const Command& root, const std::string& before_cursor) {
  std::string known;
  for (const Command* command : all_commands(root))
    if (!command->path.empty())
      known += fmt::format("{}' {}'", known.empty() ? "" : "|", command->path);
  return fmt::format(
      "  local path='' word\n"
      "  for word in {}; do\n"
      "    case \"$path $word\" in\n"
      "      {}) path=\"$path $word\" ;;\n"
      "    esac\n"
      "  done\n",
      before_cursor, known);
}

std::string of_bash(const Command& root) {
  std::string cases;
  for (const Command* command : all_commands(root)) {
    std::string words;
    for (const Word& word : words_after(*command)) words += (words.empty() ? "" : " ") + word.text;
    cases +=
        fmt::format("    '{}{}') words='{}'{} ;;\n", command->path.empty() ? "" : " ",
                    command->path, words, command->takes_overrides() ? "; words+=\" $keys\"" : "");
  }
  std::string all_keys;
  for (const Word& key : keys()) all_keys += (all_keys.empty() ? "" : " ") + key.text;
  return "# Completion of trireme for bash: source it, or copy it to "
         "~/.local/share/bash-completion/completions/trireme.\n"
         "_trireme() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} words='' keys='" +
         all_keys + "'\n" + path_of_words(root, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\"") +
         "  case \"$path\" in\n" + cases +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  # A value follows immediately.\n"
         "  [[ ${#COMPREPLY[@]} -gt 0 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
         "}\n"
         "complete -o default -F _trireme trireme\n";
}

std::string of_zsh(const Command& root) {
  const auto list = [](const std::vector<Word>& words) {
    std::string text;
    for (const Word& word : words)
      text += fmt::format("      {}\n", quoted(word.text + ":" + word.description, "'\\''"));
    return text;
  };
  std::string cases;
  for (const Command* command : all_commands(root))
    cases += fmt::format(
        "    '{}{}') words_here=(\n{}    ){} ;;\n", command->path.empty() ? "" : " ", command->path,
        list(words_after(*command)), command->takes_overrides() ? "; with_keys=1" : "");
  return "#compdef trireme\n"
         "# Completion of trireme for zsh: copy it as _trireme to a folder in $fpath.\n"
         "_trireme() {\n"
         "  local -a words_here keys=(\n" +
         list(keys()) + "  )\n  local with_keys=0\n" +
         path_of_words(root, "${words[2,CURRENT-1]}") + "  case \"$path\" in\n" + cases +
         "  esac\n"
         "  _describe -o word words_here\n"
         "  (( with_keys )) && _describe -o key keys -S ''\n"
         "  _files\n"
         "}\n"
         "_trireme \"$@\"\n";
}

// Condition on the command words before the cursor.
std::string fish_condition(const Command& command) {
  if (command.path.empty()) return "__fish_use_subcommand";
  std::string condition;
  for (std::size_t at = 0; at < command.path.size();) {
    const std::size_t end = std::min(command.path.find(' ', at), command.path.size());
    condition += fmt::format("{}__fish_seen_subcommand_from {}", condition.empty() ? "" : "; and ",
                             command.path.substr(at, end - at));
    at = end + 1;
  }
  return condition;
}

std::string of_fish(const Command& root) {
  std::string text =
      "# Completion of trireme for fish: copy it to ~/.config/fish/completions/trireme.fish.\n";
  std::string with_keys;  // commands that accept keys
  for (const Command* command : all_commands(root)) {
    const std::string condition = quoted(fish_condition(*command), "\\'");
    for (const Command& sub : command->commands)
      text += fmt::format("complete -c trireme -n {} -a {} -d {}\n", condition, sub.name(),
                          quoted(sub.description, "\\'"));
    for (const CommandOption& option : command->options)
      for (const std::string& name : option.names)
        if (name.starts_with("--"))
          text +=
              fmt::format("complete -c trireme -n {} -l {}{} -d {}\n", condition, name.substr(2),
                          option.value.empty() ? "" : " -r", quoted(option.description, "\\'"));
    if (command->takes_overrides()) with_keys += (with_keys.empty() ? "" : " ") + command->path;
  }
  for (const Word& key : keys())
    text += fmt::format("complete -c trireme -n '__fish_seen_subcommand_from {}' -a {} -d {}\n",
                        with_keys, key.text, quoted(key.description, "\\'"));
  return text;
}

void run(const CLI::App& app, const std::string& shell) {
  const Command root = command_tree(app);
  fmt::print("{}", shell == "bash" ? of_bash(root) : shell == "zsh" ? of_zsh(root) : of_fish(root));
}

}  // namespace

void add_completion(CLI::App& app) {
  auto* command =
      app.add_subcommand("completion", "Print a completion script for commands, flags and keys");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &app] { run(app, *shell); });
}

}  // namespace trireme::cli
