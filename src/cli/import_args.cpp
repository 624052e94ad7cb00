// `trireme import-args`: converts a Megatron launch script, or another system's settings file, to a
// configuration and a launch command.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/stop.h"
#include "cli/commands.h"
#include "cli/import_settings.h"
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
      return "it sees copies of files whose changes vanish with it, and it reaches no network, no "
             "socket and no process but its own";
    case script::Isolation::landlock:
      return "it can write in a scratch folder only, which vanishes with it, and it reaches no "
             "network, no socket and no process but its own";
    case script::Isolation::none:
      break;
  }
  return "nothing keeps it from changing files and from using the network";
}

void require_consent(const ImportArgsOptions& options, const script::Reached& reached) {
  if (options.run) return;
  fail_input(
      "import-args executes '{}' with bash to see which training it starts; add --run to agree. "
      "Launchers and Python are replaced by programs that only record how they were called; {}; it "
      "is ended after {} s of processor time. Without executing anything: put 'trireme pretrain-gpt "
      "--print-config' in place of 'python pretrain_gpt.py' in front of the flags",
      options.script, promise(reached.isolation), options.timeout);
}

void run_import_args(const ImportArgsOptions& options) {
  // Before asking for consent, so that a wrong name is reported at once.
  if (!fs::is_regular_file(options.script)) fail_input("there is no file '{}'", options.script);
  if (settings::is_settings_file(options.script)) {
    if (options.as_json || options.run || !options.arguments.empty() || !options.added.empty())
      fail_input(
          "'{}' is read, not executed: --run, --json, --add and arguments of a script conflict with "
          "it",
          options.script);
    return import_settings(options.script, options.ranks, options.device, options.output);
  }
  if (options.ranks > 0)
    fail_input("--ranks goes with settings files only: a script says how many it starts");
  megatron::require_shell_script(options.script);
  megatron::ImportOptions how = import_options(options);
  const script::Reached reached = script::reach_isolation(how.script);
  require_consent(options, reached);
  how.script.isolations = {reached.isolation};
  fmt::print(stderr, "note: executing {} with bash: {}\n", options.script,
             promise(reached.isolation));
  if (!reached.weaker.empty())
    fmt::print(stderr, "note: this machine does not allow copies of files ({})\n", reached.weaker);
  std::fflush(stderr);
  script::ScriptRun run;
  stoppable([&] { run = megatron::run_launch_script(options.script, how); });
  const bool is_megatron = !script::find_launches(run).empty();
  if (!is_megatron && !options.as_json &&
      import_settings_of_script(run, options.script, how, options.output)) {
    if (options.added.empty()) return;
    fail_input(
        "--add gives flags of Megatron, and '{}' starts another program: give its options "
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
    fail_input(
        "this configuration cannot be trained yet: {}; correct the script or the configuration",
        one_line(import.incomplete));
  }
  if (import.lost.empty()) return;
  if (import.lost.size() == 1)
    fail_input("this would be a different training: {}: {} (--add gives further flags)",
               one_line(import.lost[0].flag), one_line(import.lost[0].text));
  fail_input(
      "{} parts of the script could not be carried over, so this would be a different training: "
      "see 'Not carried over' above; --add gives further flags",
      import.lost.size() + import.lost_beyond);
}

}  // namespace

void add_import_args(CLI::App& app) {
  const auto options = std::make_shared<ImportArgsOptions>();
  CLI::App* command =
      app.add_subcommand("import-args",
                         "Turn a launch script of Megatron, or settings of accelerate, DeepSpeed "
                         "or torchtitan, into a configuration");
  command
      ->add_option("script", options->script,
                   "Shell script that starts pretrain_gpt.py or pretrain_bert.py, or torchtitan "
                   "or accelerate with a settings file; or such a file (.yaml, .json, .toml)")
      ->required();
  command->add_option("arguments", options->arguments, "The script's own arguments: $1 and so on");
  command->add_flag("--run", options->run, "Agree that the script is executed");
  command
      ->add_option("--set", options->set,
                   "NAME=VALUE: a variable that the script expects from outside; repeatable")
      ->allow_extra_args(false);
  command
      ->add_option("--add", options->added,
                   "Flags of Megatron, or section.key=value, after those that the script gives: "
                   "--add=\"--disable-bias-linear\"; repeatable")
      ->allow_extra_args(false);
  command->add_option("--output", options->output,
                      "Write the configuration to this file; default: print it");
  command
      ->add_option("--timeout", options->timeout,
                   "End the script after this many seconds of processor time, or six times as many "
                   "by the clock [20]")
      ->check(CLI::Range(0.1, 3600.0));
  command
      ->add_option("--devices", options->devices,
                   "Devices of a node, for scripts that count them; default: as #SBATCH says, or 8")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option(
          "--device", options->device,
          "What the training runs on, run.device: cpu, cuda or hip; default: the GPUs that the "
          "source names, and cuda with a note where it does not say whose")
      ->check(CLI::IsMember({"cpu", "cuda", "hip"}));
  command
      ->add_option("--program", options->program,
                   "Read the flags of a program that is not Megatron's own (pretrain_llama.py) as "
                   "those of pretrain_gpt.py or pretrain_bert.py: gpt, bert")
      ->check(CLI::IsMember({"gpt", "bert"}));
  command
      ->add_option("--ranks", options->ranks,
                   "Number of processes, for settings files that leave it open")
      ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--launch", options->launch,
                   "Which training to import where the script starts several: 1, 2, ...")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--isolation", options->isolation,
                   "How the script is kept from changing files: overlay (sees its own changes), "
                   "landlock (may not write), none; auto: the first of the two that works here")
      ->check(CLI::IsMember({"auto", "overlay", "landlock", "none"}));
  command->add_flag("--json", options->as_json, "Print one JSON object");
  command->footer(
      "Prints the launch line and what could not be carried over as comments, then the\n"
      "configuration. docs/from-megatron.md describes how scripts are run. Exit code 2 where\n"
      "the result would not be the same training; the configuration is written all the same.");
  command->callback([options] { run_import_args(*options); });
}

}  // namespace trireme::cli
