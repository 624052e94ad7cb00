// Runs a script, translates and checks its flags, and lists what remains to be done by hand.
#include "importers/megatron/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "importers/megatron/flags/flags.h"
#include "importers/megatron/run_device.h"
#include "importers/script/launch.h"
#include "importers/script/report.h"

namespace trireme::megatron {

using script::Call;
using script::Launch;
using script::ScriptRun;

namespace {

constexpr std::uint64_t kLargestFile = 1 << 20;

// Prefix that the shims add to placeholders left by a script's author, such as <Specify path>.
constexpr const char* kBlank = "FILL_IN:";

void note_blanks(const std::vector<std::string>& arguments, std::vector<Note>& notes) {
  for (const std::string& argument : arguments) {
    Note note{argument, "a placeholder in the script: fill it in"};
    const bool blank = argument.find(kBlank) != std::string::npos;
    if (blank && std::find(notes.begin(), notes.end(), note) == notes.end())
      notes.push_back(std::move(note));
  }
}

// Error message for an invalid configuration; empty if it is valid.
std::string find_problem(const Translation& translation, std::int64_t ranks) {
  try {
    const Config config = to_config(translation);
    check(config, ranks);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Arguments that define the training: without those that have no effect here, and without the
// TensorBoard folder, whose name often contains the time.
std::vector<std::string> essence(const std::vector<std::string>& arguments) {
  std::vector<std::string> result;
  bool skipping = false;
  for (const std::string& argument : arguments) {
    if (argument.starts_with("--")) {
      const std::string name = argument.substr(0, argument.find('='));
      const Flag* flag = find_flag(name);
      skipping = flag && (flag->fate == Fate::ignored || name == "--tensorboard-dir");
    }
    if (!skipping) result.push_back(argument);
  }
  return result;
}

std::vector<Launch> distinct_launches(const ScriptRun& run) {
  std::vector<Launch> distinct;
  for (Launch& launch : script::find_launches(run)) {
    const bool known = std::any_of(distinct.begin(), distinct.end(), [&](const Launch& other) {
      return other.bert == launch.bert && essence(other.arguments) == essence(launch.arguments);
    });
    if (!known) distinct.push_back(std::move(launch));
  }
  return distinct;
}

void add_once(std::vector<Note>& notes, Note note) {
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(std::move(note));
}

// Whether a failed command only prepares files or programs for the job: if the training needs them,
// that is detected separately. Settings files are an exception.
bool only_prepares(const std::string& command) {
  std::istringstream words(command);
  std::string program, file;
  words >> program >> file;
  for (const char* one :
       {"cp",     "mv",    "ln",    "rsync", "install", "mkdir",  "rmdir", "rm",  "touch",
        "chmod",  "chown", "chgrp", "tar",   "unzip",   "gunzip", "scp",   "lfs", "mktemp",
        "ulimit", "ls",    "df",    "du",    "free",    "dmesg",  "lscpu"}) {
    if (program == one) return true;
  }
  if (program != "source" && program != ".") return false;
  std::erase(file, '"');
  for (const char* end : {"/activate", "conda.sh", "/modules.sh", "/setvars.sh", "/etc/profile",
                          "/.bashrc", "/.profile", "/init/bash", "/lmod.sh", "/init/profile"}) {
    if (file.ends_with(end)) return true;
  }
  return false;
}

// Notes what a call lacked on this machine: a folder or a program, or that the command failed.
void note_absence(const Call& call, Import& result) {
  const std::string where = fmt::format("line {}", call.line);
  const std::string command = fmt::format("{}", fmt::join(call.arguments, " ")).substr(0, 120);
  if (call.kind == Call::Kind::absent && command.starts_with("cd ")) {
    add_once(result.notes,
             {where, fmt::format("the folder '{}' is not on this machine", command.substr(3))});
  } else if (call.kind == Call::Kind::absent) {
    add_once(result.notes, {where, fmt::format("'{}' is not on this machine", command)});
  } else if (only_prepares(command)) {
    add_once(result.notes, {where, fmt::format("'{}' failed on this machine", command)});
  } else {
    add_once(
        result.lost,
        {where,
         fmt::format(
             "'{}' failed on this machine: if it affects the training, make it work here or set "
             "what it provides with --set NAME=VALUE; otherwise remove it from a copy of the "
             "script",
             command)});
  }
}

}  // namespace

void note_run(const ScriptRun& run, const Launch& launch, Import& result) {
  for (std::size_t i = 0; i < launch.call; ++i) {  // later answers cannot affect the launch
    const Call& call = run.calls[i];
    const std::string where = fmt::format("line {}", call.line);
    const std::string command = fmt::format("{}", fmt::join(call.arguments, " ")).substr(0, 120);
    switch (call.kind) {
      case Call::Kind::asked:
        add_once(
            result.lost,
            {where,
             fmt::format("the script reads the output of '{}', which is unknown on this machine",
                         command)});
        break;
      case Call::Kind::devices:
        add_once(result.lost, {"--devices",
                               "the script counts the devices of a node: set their number with "
                               "--devices N (8 were assumed)"});
        break;
      case Call::Kind::absent:
      case Call::Kind::failed:
        note_absence(call, result);
        break;
      case Call::Kind::call:
      case Call::Kind::wrapper:
        break;
    }
  }
  if (!launch.wrapper.empty()) {
    add_once(
        result.lost,
        {launch.wrapper,
         launch.wrapper_absent
             ? "starts the training and is not on this machine, so the flags that it adds are "
               "unknown. Install it, or start the training without it in a copy of the script"
             : "was run and did not start the training, so the flags that it adds are unknown. "
               "Start the training without it in a copy of the script"});
  }
  if (!run.problem.empty() || run.status != 0)
    result.notes.push_back({"script", script::ending(run) + ", after it had started the training"});
  if (launch.folder != fs::current_path()) {
    result.notes.push_back(
        {"folder",
         fmt::format("the script starts the training in '{}': relative paths refer to that folder",
                     launch.folder.string())});
  }
  if (run.isolation != script::Isolation::overlay && !run.weaker.empty()) {
    result.notes.push_back(
        {"isolation",
         fmt::format(
             "reduced isolation, because this machine does not support overlays ({}): the script "
             "could not write outside of its folder",
             run.weaker)});
  }
}

namespace {

// The program whose flags the launch uses, according to its name or the user.
Program program_of(const Launch& launch, const ImportOptions& options, Import& result) {
  Program program = launch.bert ? Program::bert : Program::gpt;
  if (!options.program.empty()) program = options.program == "bert" ? Program::bert : Program::gpt;
  const char* name = program == Program::bert ? "bert" : "gpt";
  const bool derived = launch.script.find(fmt::format("pretrain_{}_", name)) != std::string::npos;
  if (launch.own && !derived) return program;
  if (options.program.empty() && !launch.own) {
    result.lost.push_back(
        {launch.script,
         fmt::format(
             "is not a program of Megatron; its flags were read as those of pretrain_{}.py. Add "
             "--program {} if it trains the same model with the same flags",
             name, name)});
  } else {
    result.notes.push_back(
        {launch.script, fmt::format("its flags are read as those of pretrain_{}.py", name)});
  }
  return program;
}

}  // namespace

std::vector<std::string> device_hints(const ScriptRun& run, const Launch& launch) {
  std::vector<std::string> hints(4);
  for (const Call& call : run.calls) {
    const std::string words = fmt::format("{} ", fmt::join(call.arguments, " "));
    if (!call.arguments.empty() && call.arguments[0].ends_with("-smi")) hints[0] += words;
    hints[2] += words;
  }
  hints[1] = fmt::format("{} ", fmt::join(launch.launcher, " "));
  for (const auto& [name, value] : launch.variables) hints[1] += value + " ";
  hints[3] = run.text;
  return hints;
}

std::optional<std::string> text_of_launch(const Launch& launch, const std::string& path) {
  const auto seen = launch.files.find(path);
  if (seen != launch.files.end()) return seen->second;
  std::error_code error;
  const fs::path file = launch.folder / path;
  if (!fs::is_regular_file(file, error)) return std::nullopt;
  return read_file(file, kLargestFile);
}

// Whether a flag defines the layers of a hybrid model.
bool names_layers(const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [](const std::string& word) {
    return word.starts_with("--hybrid-layer-pattern") ||
           word.starts_with("--hybrid-override-pattern");
  });
}

Import import_run(const ScriptRun& run, const std::string& name, const ImportOptions& options) {
  const std::vector<Launch> launches = distinct_launches(run);
  if (launches.empty()) script::fail_no_launch(run, name);
  Launch launch = script::pick_launch(launches, name, options.launch);
  launch.arguments.insert(launch.arguments.end(), options.added.begin(), options.added.end());
  Import result;
  TranslateOptions how;
  how.program = program_of(launch, options, result);
  how.lenient = true;
  how.read_file = [&](const std::string& path) { return text_of_launch(launch, path); };
  const script::LaunchSize size = script::launch_size(launch);
  how.ranks = result.ranks = size.ranks();
  Translation translation = translate(launch.arguments, how);
  set_run_device(translation, options.device, device_hints(run, launch));
  result.line = launch.line;
  result.program = how.program;
  result.toml = to_toml(translation);
  result.launch = script::launch_line(size, options.file);
  if (launch.hybrid && !names_layers(launch.arguments)) {
    result.lost.push_back(
        {launch.script,
         "has Mamba layers unless --hybrid-layer-pattern places others, which the import does not "
         "translate"});
  }
  result.lost.insert(result.lost.end(), translation.lost.begin(), translation.lost.end());
  result.lost_beyond = translation.lost_beyond;
  result.notes.insert(result.notes.end(), translation.notes.begin(), translation.notes.end());
  note_run(run, launch, result);
  note_blanks(launch.arguments, result.notes);
  if (result.ranks == 0) {
    result.notes.push_back({"launch", "the script does not set the number of processes"});
    const TrainConfig train = to_config(translation).train;
    if (train.global_batch_size == 0 && train.batch_size_schedule.empty()) {
      result.lost.push_back({"--global-batch-size",
                             "is not given and depends on the number of processes, which is "
                             "unknown: set train.global_batch_size"});
    }
  }
  const std::string problem = find_problem(translation, result.ranks);
  if (!problem.empty()) result.lost.push_back({"the configuration", problem});
  result.incomplete = translation.missing.empty()
                          ? problem
                          : fmt::format("the script does not set {}", translation.missing);
  return result;
}

void require_shell_script(const fs::path& path) {
  const std::string text = read_file(path, kLargestFile);
  if (text.find('\0') != std::string::npos)
    fail_input("'{}' is a binary file, but a shell script was expected", path.string());
  const std::string first = text.substr(0, text.find('\n'));
  const bool runs_other = first.starts_with("#!") && first.find("sh") == std::string::npos;
  if (path.extension() == ".py" || runs_other)
    fail_input(
        "'{}' is a program{}, not a shell script: import-args reads the script that starts it "
        "(torchrun {} ...), or a settings file (.yaml, .json, .toml)",
        path.string(), path.extension() == ".py" ? " of Python" : "", path.filename().string());
}

ScriptRun run_launch_script(const fs::path& path, const ImportOptions& options) {
  require_shell_script(path);
  const std::string text = read_file(path, kLargestFile);
  ScriptRun run = script::run_script(fs::absolute(path), options.script);
  run.text = text;
  return run;
}

Import import_script(const fs::path& path, const ImportOptions& options) {
  return import_run(run_launch_script(path, options), path.string(), options);
}

}  // namespace trireme::megatron
