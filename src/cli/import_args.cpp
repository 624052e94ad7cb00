// `trireme import-args`: turns a launch script of Megatron into a configuration and a launch line.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "megatron/import.h"

namespace trireme::cli {
namespace {

constexpr std::uint64_t kLargestScript = 1 << 20;

struct Options {
  std::string script;
  std::vector<std::string> arguments;
  std::vector<std::string> set;
  std::string output;
  bool as_json = false;
};

megatron::ScriptOptions script_options(const Options& options) {
  megatron::ScriptOptions result;
  result.name = options.script;
  result.arguments = options.arguments;
  // Who calls matters to paths alone; nothing else of the environment is asked.
  for (const char* name : {"HOME", "USER"}) {
    if (const char* value = std::getenv(name)) result.variables[name] = value;
  }
  for (const std::string& text : options.set) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      fail_input("--set {}: expected NAME=VALUE", text);
    result.variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return result;
}

// Of one line, so that it can stand in a comment.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

std::string summary(const Options& options, const megatron::Import& import) {
  std::string text =
      fmt::format("# {} line {}: {}\n# Launch: {}\n", one_line(options.script), import.line,
                  import.program == megatron::Program::gpt ? "pretrain_gpt" : "pretrain_bert",
                  one_line(import.launch));
  const auto list = [&](const char* title, const std::vector<megatron::Note>& notes) {
    if (!notes.empty()) text += fmt::format("#\n# {}\n", title);
    for (const megatron::Note& note : notes)
      text += fmt::format("#   {}: {}\n", one_line(note.flag), one_line(note.text));
  };
  list("Not carried over:", import.lost);
  list("Notes:", import.notes);
  return text;
}

nlohmann::ordered_json to_json(const std::vector<megatron::Note>& notes) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const megatron::Note& note : notes)
    json.push_back({{"what", note.flag}, {"why", note.text}});
  return json;
}

void print_json(const megatron::Import& import) {
  const nlohmann::ordered_json json = {
      {"line", import.line},
      {"program", import.program == megatron::Program::gpt ? "pretrain_gpt" : "pretrain_bert"},
      {"launch", import.launch},
      {"ranks", import.ranks},
      {"toml", import.toml},
      {"incomplete", import.incomplete},
      {"not_carried_over", to_json(import.lost)},
      {"notes", to_json(import.notes)}};
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void run(const Options& options) {
  const std::string text = read_file(options.script, kLargestScript);
  const std::string file =
      options.output.empty() ? fs::path(options.script).stem().string() + ".toml" : options.output;
  const megatron::Import import = megatron::import_script(text, script_options(options), file);
  if (!options.output.empty()) write_file_durably(options.output, import.toml);
  if (options.as_json) {
    print_json(import);
  } else {
    fmt::print("{}", summary(options, import));
    if (options.output.empty()) fmt::print("\n{}", import.toml);
  }
  if (import.incomplete.empty()) return;
  std::fflush(stdout);
  fail_input("this configuration cannot be trained yet: {}; mend the script or the configuration",
             one_line(import.incomplete));
}

}  // namespace

void add_import_args(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "import-args", "Turn a launch script of Megatron into a configuration, without running it");
  command
      ->add_option("script", options->script,
                   "Shell script that starts pretrain_gpt.py or "
                   "pretrain_bert.py")
      ->required();
  command->add_option("arguments", options->arguments, "The script's own arguments: $1 and so on");
  command
      ->add_option("--set", options->set,
                   "NAME=VALUE: a variable that the script expects from outside; repeatable")
      ->allow_extra_args(false);
  command->add_option("--output", options->output,
                      "Write the configuration to this file; default: print it");
  command->add_flag("--json", options->as_json, "Print one JSON object");
  command->footer(
      "Prints the launch line and what could not be carried over as comments, then the\n"
      "configuration. Nothing is executed; docs/from-megatron.md says what is understood.\n"
      "Exit code 2 where the result cannot be trained as it stands.");
  command->callback([options] { run(*options); });
}

}  // namespace trireme::cli
