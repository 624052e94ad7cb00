// Runs, translates, checks, and lists what remains to be done by hand.
#include "megatron/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "megatron/flags.h"
#include "script/launch.h"
#include "script/report.h"

namespace trireme::megatron {

using script::Call;
using script::Launch;
using script::ScriptRun;

namespace {

constexpr std::uint64_t kLargestFile = 1 << 20;
constexpr std::size_t kMostShown = 100;

// The shims put this in front of what the author of a script left to fill in: <Specify path>.
constexpr const char* kBlank = "FILL_IN:";

void note_blanks(const std::vector<std::string>& arguments, std::vector<Note>& notes) {
  for (const std::string& argument : arguments) {
    Note note{argument, "a blank in the script: fill it in"};
    const bool blank = argument.find(kBlank) != std::string::npos;
    if (blank && std::find(notes.begin(), notes.end(), note) == notes.end())
      notes.push_back(std::move(note));
  }
}

// What is wrong with the configuration; nothing where it holds together.
std::string find_problem(const Translation& translation, std::int64_t ranks) {
  try {
    const Config config = to_config(translation);
    check(config);
    if (ranks > 0) validate_layout(config, ranks);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The arguments that say what is trained: without those that have no effect here, and without the
// folder of TensorBoard, which scripts like to name by the time of day.
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

// What the run of the script itself leaves open.
void note_run(const ScriptRun& run, const Launch& launch, Import& result) {
  for (std::size_t i = 0; i < launch.call; ++i) {  // later answers cannot change the launch
    const Call& call = run.calls[i];
    const std::string where = fmt::format("line {}", call.line);
    const std::string command = fmt::format("{}", fmt::join(call.arguments, " ")).substr(0, 120);
    if (result.lost.size() >= kMostShown) break;
    if (call.kind == Call::Kind::asked) {
      result.lost.push_back(
          {where,
           fmt::format("the script reads the output of '{}', which is not known here", command)});
    } else if (call.kind == Call::Kind::devices) {
      const Note note{"--devices",
                      "the script counts the devices of a node, and 8 were assumed; "
                      "give their number"};
      if (std::find(result.lost.begin(), result.lost.end(), note) == result.lost.end())
        result.lost.push_back(note);
    }
  }
  if (!run.problem.empty() || run.status != 0)
    result.notes.push_back({"script", script::ending(run) + ", after it had started the training"});
  if (launch.folder != fs::current_path()) {
    result.notes.push_back(
        {"folder", fmt::format("the script starts the training in '{}': relative paths start there",
                               launch.folder.string())});
  }
  if (run.isolation != script::Isolation::overlay && !run.weaker.empty()) {
    result.notes.push_back(
        {"isolation", fmt::format("weaker than elsewhere, since this machine does not allow "
                                  "overlays ({}): the script could not write outside of its folder",
                                  run.weaker)});
  }
}

std::optional<std::string> text_of(const Launch& launch, const std::string& path) {
  const auto seen = launch.files.find(path);
  if (seen != launch.files.end()) return seen->second;
  std::error_code error;
  const fs::path file = launch.folder / path;
  if (!fs::is_regular_file(file, error)) return std::nullopt;
  return read_file(file, kLargestFile);
}

}  // namespace

Import import_run(const ScriptRun& run, const std::string& name, const ImportOptions& options) {
  const std::vector<Launch> launches = distinct_launches(run);
  if (launches.empty()) script::fail_no_launch(run, name);
  const Launch& launch = script::pick_launch(launches, name, options.launch);
  TranslateOptions how;
  how.program = launch.bert ? Program::bert : Program::gpt;
  how.lenient = true;
  how.read_file = [&](const std::string& path) { return text_of(launch, path); };
  const Translation translation = translate(launch.arguments, how);
  const script::LaunchSize size = script::launch_size(launch);
  Import result;
  result.line = launch.line;
  result.program = how.program;
  result.ranks = size.nodes * size.per_node;
  result.toml = to_toml(translation);
  result.launch = script::launch_line(size, options.file);
  result.lost = translation.lost;
  result.notes = translation.notes;
  note_run(run, launch, result);
  note_blanks(launch.arguments, result.notes);
  if (result.ranks == 0) {
    result.notes.push_back({"launch", "the script does not say how many processes it starts"});
    if (to_config(translation).train.global_batch_size == 0) {
      result.lost.push_back({"--global-batch-size",
                             "is not given, and follows from the number of processes, which is not "
                             "known: give train.global_batch_size"});
    }
  }
  const std::string problem = find_problem(translation, result.ranks);
  if (!problem.empty()) result.lost.push_back({"the configuration", problem});
  result.incomplete = translation.missing.empty()
                          ? problem
                          : fmt::format("the script does not give {}", translation.missing);
  return result;
}

Import import_script(const fs::path& path, const ImportOptions& options) {
  const std::string text = read_file(path, kLargestFile);
  if (text.find('\0') != std::string::npos)
    fail_input("'{}' is a binary file; expected a shell script", path.string());
  return import_run(script::run_script(fs::absolute(path), options.script), path.string(), options);
}

}  // namespace trireme::megatron
