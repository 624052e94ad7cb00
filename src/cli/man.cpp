// `trireme man`: generates the manual page from the descriptions in --help.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command_tree.h"
#include "cli/commands.h"

namespace trireme::cli {
namespace {

// Escapes text for roff: backslashes, dashes, and dots or quotes at the start of a line are
// special.
std::string roff(const std::string& text) {
  std::string escaped;
  bool starts_line = true;
  for (const char c : text) {
    if (starts_line && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else
      escaped += c;
    starts_line = c == '\n';
  }
  return escaped;
}

std::string option_text(const CommandOption& option) {
  std::string names =
      option.positional
          ? fmt::format("\\fI{}\\fR", roff(option.names.front()))
          : fmt::format("\\fB{}\\fR", roff(fmt::format("{}", fmt::join(option.names, ", "))));
  if (!option.positional && !option.value.empty())
    names += fmt::format(" \\fI{}\\fR", roff(option.value));
  return fmt::format(".TP\n{}\n{}\n", names, roff(option.description));
}

std::string command_text(const Command& command) {
  std::string text =
      fmt::format(".SS trireme {}\n{}.\n", roff(command.path), roff(command.description));
  for (const CommandOption& option : command.options) text += option_text(option);
  if (!command.footer.empty()) text += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(command.footer));
  return text;
}

std::string page(const Command& root) {
  std::string text = fmt::format(
      ".TH TRIREME 1 \"\" \"trireme {}\"\n"
      ".SH NAME\ntrireme \\- pre\\-train large language models\n"
      ".SH SYNOPSIS\n\\fBtrireme\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n"
      ".SH DESCRIPTION\n{}\n.SH COMMANDS\n",
      TRIREME_VERSION, roff(root.description));
  for (const Command* command : all_commands(root))
    if (!command->path.empty()) text += command_text(*command);
  return text +
         ".SH EXIT STATUS\n"
         ".TP\n0\nDone, or stopped as planned.\n"
         ".TP\n1\nFailed.\n"
         ".TP\n2\nWrong input or usage.\n"
         ".TP\n3\nInterrupted and saved; the same command continues.\n";
}

}  // namespace

void add_man(CLI::App& app) {
  auto* command = app.add_subcommand("man", "Print the manual page, for man -l -");
  command->callback([&app] { fmt::print("{}", page(command_tree(app))); });
}

}  // namespace trireme::cli
