// Reads, translates, checks, and says what is left to do by hand.
#include "megatron/import.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace trireme::megatron {
namespace {

constexpr std::uint64_t kLargestJson = 1 << 20;
constexpr std::size_t kMostUnset = 100;
constexpr std::size_t kMostLaunches = 10;

std::string file_text_or_nothing(const std::string& path, bool& there) {
  std::error_code error;
  there = fs::is_regular_file(path, error);
  return there ? read_file(path, kLargestJson) : "";
}

std::string launch_line(const LaunchSize& size, const std::string& file) {
  std::string train = fmt::format("trireme train {}", file);
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

// Why what stands at text[at], a '$' or '<', has no value.
const char* why_unset(const std::string& text, std::size_t at) {
  if (text[at] == '<') return "a blank in the script; fill it in";
  if (text.compare(at, 2, "$(") == 0) return "only running the script would tell; write the value";
  const bool positional = at + 1 < text.size() && text[at + 1] >= '0' && text[at + 1] <= '9';
  return positional ? "not given; give the script's arguments behind its name"
                    : "not set; give it with --set NAME=VALUE";
}

// "$1", "${DATA}", "<path>" where they stand in what was carried over.
void note_unset(const std::vector<std::string>& arguments, std::vector<Note>& lost) {
  for (const std::string& argument : arguments) {
    if (lost.size() >= kMostUnset) return;
    const std::size_t at = argument.find_first_of("$<");
    if (at == std::string::npos) continue;
    Note note{argument, why_unset(argument, at)};
    if (std::find(lost.begin(), lost.end(), note) == lost.end()) lost.push_back(std::move(note));
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

[[noreturn]] void fail_no_launch(const LaunchScript& script, const std::string& name) {
  std::string hints;
  for (const Note& note : script.lost) hints += fmt::format("\n  {}: {}", note.flag, note.text);
  fail_input(
      "{}: found no command that starts pretrain_gpt.py or pretrain_bert.py; name what the script "
      "expects from outside with --set NAME=VALUE{}",
      name, hints);
}

}  // namespace

Import import_script(const std::string& text, const ScriptOptions& options,
                     const std::string& file) {
  LaunchScript script = read_launch_script(text, options);
  if (script.launches.empty()) fail_no_launch(script, options.name);
  const Launch& launch = script.launches.front();
  TranslateOptions how;
  how.program = launch.program;
  how.lenient = true;
  how.read_json = [&](const std::string& path) -> std::optional<std::string> {
    const auto written = script.files.find(path);
    if (written != script.files.end()) return written->second;
    bool there = false;
    std::string json = file_text_or_nothing(path, there);
    return there ? std::optional(std::move(json)) : std::nullopt;
  };
  Import result;
  note_unset(launch.arguments, result.lost);
  const Translation translation = translate(launch.arguments, how);
  const LaunchSize size = launch_size(launch, script.sbatch);
  result.line = launch.line;
  result.program = launch.program;
  result.ranks = size.nodes * size.per_node;
  result.toml = to_toml(translation);
  result.launch = launch_line(size, file);
  for (const Note& note : translation.lost) {
    // What has no value is listed already.
    if (!note.flag.starts_with('$')) result.lost.push_back(note);
  }
  result.lost.insert(result.lost.end(), script.lost.begin(), script.lost.end());
  const std::string problem = find_problem(translation, result.ranks);
  if (!problem.empty()) result.lost.push_back({"the configuration", problem});
  result.incomplete = translation.missing.empty()
                          ? problem
                          : fmt::format("the script does not give {}", translation.missing);
  result.notes = translation.notes;
  for (std::size_t i = 1; i < std::min(script.launches.size(), kMostLaunches); ++i) {
    result.lost.push_back({fmt::format("line {}", script.launches[i].line),
                           "starts another run; only the first one is imported"});
  }
  return result;
}

}  // namespace trireme::megatron
