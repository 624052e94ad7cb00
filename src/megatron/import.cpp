// Runs, translates, checks, and lists what remains to be done by hand.
#include "megatron/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "megatron/flags.h"
#include "script/launch.h"

namespace trireme::megatron {

using script::Call;
using script::Launch;
using script::LaunchSize;
using script::ScriptRun;

namespace {

constexpr std::uint64_t kLargestFile = 1 << 20;
constexpr std::size_t kMostShown = 100;

std::string launch_line(const LaunchSize& size, const std::string& file) {
  const std::string train = fmt::format("trireme train {}", file);
  const auto count = [](std::int64_t n) { return n > 0 ? fmt::format("{}", n) : "N"; };
  if (size.slurm) {
    return fmt::format("srun --nodes={} --ntasks-per-node={} {}", count(size.nodes),
                       count(size.per_node), train);
  }
  if (size.nodes == 1 && size.per_node == 1) return train;
  const std::int64_t ranks = size.nodes * size.per_node;
  const char* hosts = size.nodes == 1 ? "" : "--hostfile HOSTS ";
  return fmt::format("mpirun -n {} {}{}", count(ranks), hosts, train);
}

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

// The last lines of the script's output, without bash's traces.
std::string last_lines(const std::string& output) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < output.size();) {
    const std::size_t end = std::min(output.find('\n', at), output.size());
    std::string line = output.substr(at, std::min<std::size_t>(end - at, 200));
    for (char& c : line) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    }
    if (!line.empty() && !line.starts_with('+')) lines.push_back("  | " + line);
    at = end + 1;
  }
  if (lines.size() > 6) lines.erase(lines.begin(), lines.end() - 6);
  return lines.empty() ? "" : fmt::format("\nits last output:\n{}", fmt::join(lines, "\n"));
}

// How the script ended, for a message.
std::string ending(const ScriptRun& run) {
  if (!run.problem.empty()) return run.problem;
  if (run.status != 0) return fmt::format("it ended with exit code {}", run.status);
  return "it ended normally";
}

[[noreturn]] void fail_no_launch(const ScriptRun& run, const std::string& name) {
  std::string seen;
  const std::vector<std::string> others = script::find_other_trainings(run);
  if (!others.empty()) {
    seen = fmt::format("; it started {}, which Trireme does not know", fmt::join(others, ", "));
  } else {
    std::vector<std::string> programs;
    for (const Call& call : run.calls) {
      const std::string program = call.arguments.empty() ? "" : call.arguments[0];
      if (std::find(programs.begin(), programs.end(), program) == programs.end())
        programs.push_back(program);
    }
    if (!programs.empty()) seen = fmt::format("; it called {}", fmt::join(programs, ", "));
  }
  fail_input(
      "{}: the script did not start pretrain_gpt.py or pretrain_bert.py: {}{}. Values that it "
      "expects from outside are given with --set NAME=VALUE and as arguments after its name{}",
      name, ending(run), seen, last_lines(run.output));
}

std::string short_command(const Launch& launch) {
  std::string text = launch.script;
  for (const std::string& argument : launch.arguments) {
    if (text.size() > 400) return text + " ...";
    text += " " + argument;
  }
  return text;
}

// The flags in which two launches differ, to tell them apart.
std::string difference(const Launch& first, const Launch& other) {
  const auto& ours = first.arguments;
  const auto& theirs = other.arguments;
  const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  if (b == theirs.end()) return "ends earlier";
  const bool is_value = b != theirs.begin() && !b->starts_with("--");
  return (is_value ? *(b - 1) + " " : "") + *b;
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

const Launch& pick(const std::vector<Launch>& launches, const std::string& name, int wanted) {
  if (wanted > static_cast<int>(launches.size())) {
    fail_input("{}: --launch {}: the script starts {} training(s)", name, wanted, launches.size());
  }
  if (wanted > 0) return launches[static_cast<std::size_t>(wanted - 1)];
  if (launches.size() == 1) return launches.front();
  std::string list;
  for (std::size_t i = 0; i < std::min<std::size_t>(launches.size(), 10); ++i) {
    list +=
        fmt::format("\n  {}: line {}: {}", i + 1, launches[i].line,
                    i == 0 ? short_command(launches[0]).substr(0, 160)
                           : "the first difference is: " + difference(launches[0], launches[i]));
  }
  fail_input("{}: the script starts {} different trainings; choose one with --launch N:{}", name,
             launches.size(), list);
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
    result.notes.push_back({"script", ending(run) + ", after it had started the training"});
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
  if (launches.empty()) fail_no_launch(run, name);
  const Launch& launch = pick(launches, name, options.launch);
  TranslateOptions how;
  how.program = launch.bert ? Program::bert : Program::gpt;
  how.lenient = true;
  how.read_file = [&](const std::string& path) { return text_of(launch, path); };
  const Translation translation = translate(launch.arguments, how);
  const LaunchSize size = script::launch_size(launch);
  Import result;
  result.line = launch.line;
  result.program = how.program;
  result.ranks = size.nodes * size.per_node;
  result.toml = to_toml(translation);
  result.launch = launch_line(size, options.file);
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
