// `trireme config`: creates an initial configuration.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/configure/config_from.h"
#include "cli/configure/config_questions.h"
#include "cli/new_file.h"
#include "config/presets.h"
#include "config/reference.h"
#include "operations/slurm_script.h"

namespace trireme::cli {
namespace {

struct ConfigArguments {
  bool for_editing = false, presets = false, yes = false;
  std::string output, from;
  std::map<std::string, std::string> answers;
};

std::string presets_text() {
  std::string text = fmt::format("{:<12} {}\n", "preset", "from");
  for (const Preset& preset : all_presets())
    text += fmt::format("{:<12} {}\n", preset.name, preset.source);
  return text;
}

// Number given by a flag; 0: none.
std::int64_t count_of(const std::map<std::string, std::string>& answers, const char* name) {
  const auto found = answers.find(name);
  return found == answers.end() ? 0
                                : std::clamp<std::int64_t>(
                                      std::strtoll(found->second.c_str(), nullptr, 10), 0, 1 << 16);
}

// Keeps the other answers if one turns out to be wrong at the end.
std::string answered(Questions& questions, const ConfigArguments& arguments,
                     const settings::SettingsFile* file) {
  try {
    return configuration_by_questions(questions, file);
  } catch (const Error& error) {
    const std::string typed = questions.typed_as_flags();
    if (typed.empty()) throw;
    std::string given = arguments.from.empty() ? "" : " --from " + shell_word(arguments.from);
    for (const auto& [name, answer] : arguments.answers)
      given += fmt::format(" --{} {}", name, shell_word(answer));
    throw Error(error.code(),
                fmt::format("{}\nChange one of your answers and run again: trireme config{}{}",
                            error.what(), given, typed));
  }
}

std::string text_of(const ConfigArguments& arguments) {
  if (arguments.presets) return presets_text();
  if (arguments.for_editing) return configuration_template();
  Questions questions(arguments.answers, arguments.yes);
  if (arguments.from.empty()) return answered(questions, arguments, nullptr);
  const settings::SettingsFile file = settings_to_start_from(
      arguments.from, count_of(arguments.answers, "nodes"), count_of(arguments.answers, "ranks"));
  questions.add_known(answers_of(file), arguments.from);
  return answered(questions, arguments, &file);
}

void run(const ConfigArguments& arguments) {
  require_new_file(arguments.output);  // before the questions, so that no answers are lost
  const std::string text = text_of(arguments);
  if (arguments.output.empty()) {
    fmt::print("{}", text);
    return;
  }
  write_file_durably(arguments.output, text);
  fmt::print("configuration written to {}\n", arguments.output);
}

}  // namespace

void add_config(CLI::App& app) {
  auto* command = app.add_subcommand(
      "config", "Write a first configuration interactively, or print a template or the presets");
  auto arguments = std::make_shared<ConfigArguments>();
  auto* blank = command->add_flag(
      "--template", arguments->for_editing,
      "Print a configuration file with all keys, their defaults, units and valid values");
  auto* presets = command->add_flag("--presets", arguments->presets,
                                    "Print the models available as model.preset");
  auto* from = command->add_option(
      "--from", arguments->from,
      "Start from the settings of another system: accelerate's .yaml, DeepSpeed's .json, "
      "torchtitan's .toml or saved .json, or Megatron-Bridge's run_config.yaml. Their settings are "
      "kept, without questions about them");
  blank->excludes(presets)->excludes(from);
  presets->excludes(from);
  command->add_flag("-y,--yes", arguments->yes, "Ask no questions and accept all proposed values");
  for (const Question& question : config_questions())
    command->add_option_function<std::string>(
        fmt::format("--{}", question.name),
        [arguments, name = question.name](const std::string& answer) {
          arguments->answers[name] = answer;
        },
        fmt::format("Answers: {}", question.text));
  command->add_option("-o,--output", arguments->output,
                      "Write to this file, which must not exist, instead of the terminal");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace trireme::cli
