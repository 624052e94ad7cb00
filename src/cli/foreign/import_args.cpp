// `trireme import-args`: converts a Megatron launch script, or another system's settings file, to a
// configuration and a launch command.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/stop.h"
#include "cli/commands.h"
#include "cli/foreign/import_settings.h"
#include "importers/megatron/import.h"
#include "importers/script/launch.h"
#include "importers/settings/settings_file.h"

namespace trireme::cli {
namespace {

struct ImportArgsOptions {
  std::string script;
  std::vector<std::string> arguments;
  std::vector<std::string> set, added;
  std::string output;
  std::string isolation = "auto";
  std::string device;
  std::string program;
  double timeout = 20;
  int devices = 0;
  std::int64_t ranks = 0;
  int launch = 0;
  bool run = false;
  bool as_json = false;
};

megatron::ImportOptions import_options(const ImportArgsOptions& options) {
  megatron::ImportOptions result;
  result.file =
      options.output.empty() ? fs::path(options.script).stem().string() + ".toml" : options.output;
  result.launch = options.launch;
  result.device = options.device;
  result.program = options.program;
  for (const std::string& text : options.added) {
    std::istringstream words(text);
    for (std::string word; words >> word;) result.added.push_back(word);
  }
  result.script.arguments = options.arguments;
  result.script.devices = options.devices;
  result.script.limit =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout * 1000));
  for (const std::string& text : options.set) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      fail_input("--set {}: expected NAME=VALUE", text);
    result.script.variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  using script::Isolation;
  if (options.isolation == "overlay") result.script.isolations = {Isolation::overlay};
  if (options.isolation == "landlock") result.script.isolations = {Isolation::landlock};
  if (options.isolation == "none") result.script.isolations = {Isolation::none};
  return result;
}

// Makes text suitable for a comment.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

std::string summary(const ImportArgsOptions& options, const megatron::Import& import) {
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
  if (import.lost_beyond > 0) text += fmt::format("#   and {} more\n", import.lost_beyond);
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
      {"not_carried_over_beyond", import.lost_beyond},
      {"notes", to_json(import.notes)}};
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

// Describes the isolation of the script that this machine actually provides.
const char* promise(script::Isolation isolation) {
  switch (isolation) {
    case script::Isolation::overlay:
      return "its changes to files are discarded when it ends, and it cannot reach the network, "
             "sockets or other processes";
    case script::Isolation::landlock:
      return "it can write only to a scratch folder, which is removed when it ends, and it cannot "
             "reach the network, sockets or other processes";
    case script::Isolation::none:
      break;
  }
  return "nothing prevents it from changing files or using the network";
}

void require_consent(const ImportArgsOptions& options, const script::Reached& reached) {
  if (options.run) return;
  fail_input(
      "import-args executes '{}' with bash to see which training it starts; add --run to allow "
      "this. Launchers and Python are replaced by programs that only record how they were called; "
      "{}; it is stopped after {} s of processor time. To avoid executing anything, replace "
      "'python pretrain_gpt.py' with 'trireme pretrain-gpt --print-config' in front of the flags",
      options.script, promise(reached.isolation), options.timeout);
}

void run_import_args(const ImportArgsOptions& options) {
  // Before asking for consent, so that a wrong name is reported at once.
  if (!fs::is_regular_file(options.script))
    fail_input("the file '{}' does not exist", options.script);
  if (settings::is_settings_file(options.script)) {
    if (options.as_json || options.run || !options.arguments.empty() || !options.added.empty())
      fail_input(
          "'{}' is read, not executed: --run, --json, --add and arguments of a script conflict with "
          "it",
          options.script);
    return import_settings(options.script, options.ranks, options.device, options.output);
  }
  if (options.ranks > 0)
    fail_input(
        "--ranks applies only to settings files: a script sets the number of processes itself");
  megatron::require_shell_script(options.script);
  megatron::ImportOptions how = import_options(options);
  const script::Reached reached = script::reach_isolation(how.script);
  require_consent(options, reached);
  how.script.isolations = {reached.isolation};
  fmt::print(stderr, "note: executing {} with bash: {}\n", options.script,
             promise(reached.isolation));
  if (!reached.weaker.empty())
    fmt::print(stderr, "note: this machine does not support overlays ({})\n", reached.weaker);
  std::fflush(stderr);
  script::ScriptRun run;
  stoppable([&] { run = megatron::run_launch_script(options.script, how); });
  const bool is_megatron = !script::find_launches(run).empty();
  if (!is_megatron && !options.as_json &&
      import_settings_of_script(run, options.script, how, options.output)) {
    if (options.added.empty()) return;
    fail_input(
        "--add applies to flags of Megatron, but '{}' starts another program: change its options "
        "in the script",
        options.script);
  }
  const megatron::Import import = megatron::import_run(run, options.script, how);
  if (!options.output.empty()) write_file_durably(options.output, import.toml);
  if (options.as_json) {
    print_json(import);
  } else {
    fmt::print("{}", summary(options, import));
    if (options.output.empty()) fmt::print("\n{}", import.toml);
  }
  std::fflush(stdout);
  if (!import.incomplete.empty()) {
    fail_input("this configuration is not yet valid: {}; correct the script or the configuration",
               one_line(import.incomplete));
  }
  if (import.lost.empty()) return;
  if (import.lost.size() == 1)
    fail_input(
        "the result would be a different training run: {}: {} (--add gives additional flags)",
        one_line(import.lost[0].flag), one_line(import.lost[0].text));
  fail_input(
      "{} of the script could not be carried over, so the result would be a different "
      "training run: see 'Not carried over' above; --add gives additional flags",
      counted(import.lost.size() + import.lost_beyond, "part"));
}

}  // namespace

void add_import_args(CLI::App& app) {
  const auto options = std::make_shared<ImportArgsOptions>();
  CLI::App* command =
      app.add_subcommand("import-args",
                         "Turn a launch script of Megatron, or settings of accelerate, DeepSpeed, "
                         "torchtitan or Megatron-Bridge, into a configuration");
  command
      ->add_option("script", options->script,
                   "Shell script that starts pretrain_gpt.py or pretrain_bert.py, or torchtitan or "
                   "accelerate with a settings file; or such a settings file (.yaml, .json, "
                   ".toml)")
      ->required();
  command->add_option("arguments", options->arguments, "The script's own arguments: $1 and so on");
  command->add_flag("--run", options->run, "Allow executing the script");
  command
      ->add_option("--set", options->set,
                   "NAME=VALUE: an environment variable that the script expects; repeatable")
      ->allow_extra_args(false);
  command
      ->add_option("--add", options->added,
                   "Flags of Megatron, or section.key=value, appended to those of the script: "
                   "--add=\"--disable-bias-linear\"; repeatable")
      ->allow_extra_args(false);
  command->add_option("--output", options->output,
                      "Write the configuration to this file; default: print it");
  command
      ->add_option("--timeout", options->timeout,
                   "Stop the script after this many seconds of processor time, or six times as "
                   "many seconds of wall-clock time [20]")
      ->check(CLI::Range(0.1, 3600.0));
  command
      ->add_option("--devices", options->devices,
                   "Number of devices per node, for scripts that count them; default: as in "
                   "#SBATCH, or 8")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option(
          "--device", options->device,
          "Device of the training, run.device: cpu, cuda or hip; default: the GPUs that the source "
          "names, or cuda with a note if it does not name a vendor")
      ->check(CLI::IsMember({"cpu", "cuda", "hip"}));
  command
      ->add_option("--program", options->program,
                   "Read the flags of a program that is not part of Megatron (pretrain_llama.py) "
                   "as those of pretrain_gpt.py or pretrain_bert.py: gpt, bert")
      ->check(CLI::IsMember({"gpt", "bert"}));
  command
      ->add_option("--ranks", options->ranks,
                   "Number of processes, for settings files that do not set it")
      ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--launch", options->launch,
                   "Which training to import if the script starts several: 1, 2, ...")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--isolation", options->isolation,
                   "How the script is prevented from changing files: overlay (sees its own "
                   "changes), landlock (cannot write), none; auto: the first of the two that this "
                   "machine supports")
      ->check(CLI::IsMember({"auto", "overlay", "landlock", "none"}));
  command->add_flag("--json", options->as_json, "Print one JSON object");
  command->footer(
      "Prints the launch line and what could not be carried over as comments, then the\n"
      "configuration. docs/from-megatron.md describes how scripts are run. Exit code 2 if\n"
      "the result would be a different training run; the configuration is still written.");
  command->callback([options] { run_import_args(*options); });
}

}  // namespace trireme::cli
