// `trireme config`: configurations to start from.
#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "config/presets.h"
#include "config/reference.h"

namespace trireme::cli {
namespace {

struct ConfigArguments {
  bool for_editing = false, presets = false;
  std::string output;
};

std::string presets_text() {
  std::string text = fmt::format("{:<12} {}\n", "preset", "from");
  for (const Preset& preset : all_presets())
    text += fmt::format("{:<12} {}\n", preset.name, preset.source);
  return text;
}

void run(const ConfigArguments& arguments) {
  const std::string text = arguments.presets ? presets_text() : configuration_template();
  if (arguments.output.empty()) {
    fmt::print("{}", text);
    return;
  }
  if (fs::exists(arguments.output))
    fail_input("'{}' exists already: name another file", arguments.output);
  write_file_durably(arguments.output, text);
  fmt::print("configuration written to {}\n", arguments.output);
}

}  // namespace

void add_config(CLI::App& app) {
  auto* command = app.add_subcommand("config", "Print a configuration to start from");
  auto arguments = std::make_shared<ConfigArguments>();
  auto* choice = command->add_option_group("content");
  choice->add_flag("--template", arguments->for_editing,
                   "A configuration file with all keys, their defaults, units and valid values");
  choice->add_flag("--presets", arguments->presets, "The models that model.preset knows");
  choice->require_option(1);
  command->add_option("-o,--output", arguments->output,
                      "Write to this file, which must not exist, instead of the terminal");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace trireme::cli
