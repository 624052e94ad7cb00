// Reports on script runs and their launches.
#include "importers/script/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"

namespace trireme::script {
namespace {

// Last lines of the script's output, without bash traces.
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

std::string short_command(const Launch& launch) {
  std::string text = launch.script;
  for (const std::string& argument : launch.arguments) {
    if (text.size() > 400) return text + " ...";
    text += " " + argument;
  }
  return text;
}

// Flags that differ between two launches.
std::string difference(const Launch& first, const Launch& other) {
  const auto& ours = first.arguments;
  const auto& theirs = other.arguments;
  const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  if (b == theirs.end()) return "stops earlier";
  const bool is_value = b != theirs.begin() && !b->starts_with("--");
  return (is_value ? *(b - 1) + " " : "") + *b;
}

}  // namespace

std::string ending(const ScriptRun& run) {
  if (!run.problem.empty()) return run.problem;
  if (run.status != 0) return fmt::format("it ended with exit code {}", run.status);
  return "it ended normally";
}

// Problems of the script, from the shims' records.
std::string hindrances(const ScriptRun& run) {
  std::string text;
  for (const Call& call : run.calls) {
    if (call.kind == Call::Kind::absent || call.kind == Call::Kind::failed)
      text += fmt::format("; line {}: '{}' {}", call.line, fmt::join(call.arguments, " "),
                          call.kind == Call::Kind::absent ? "is not there" : "failed");
  }
  return text;
}

// torchtitan since February 2026, whose configuration is a function: "--config llama3_8b".
bool is_python_torchtitan(const std::vector<std::string>& words) {
  const auto is_option = [](const std::string& word) {
    return word == "--config" || word.starts_with("--config=");
  };
  return std::ranges::find(words, "torchtitan.train") != words.end() &&
         std::ranges::any_of(words, is_option);
}

// Hint at another system's settings file among the arguments, which may describe the training.
std::string settings_hint(const ScriptRun& run) {
  for (const Call& call : run.calls) {
    if (call.kind == Call::Kind::call && is_python_torchtitan(call.arguments))
      return ". torchtitan saves its configuration with --debug.save_config_file FILE.json, and "
             "'trireme import-args FILE.json' reads it";
    for (const std::string& word : call.arguments) {
      const std::string name = word.substr(word.find('=') + 1);
      for (const char* end : {".toml", ".yaml", ".yml", ".json"}) {
        if (call.kind == Call::Kind::call && name.ends_with(end))
          return fmt::format(
              ". 'trireme import-args {}' reads settings of torchtitan, accelerate, DeepSpeed "
              "and Megatron-Bridge",
              name);
      }
    }
  }
  return "";
}

void fail_no_launch(const ScriptRun& run, const std::string& name) {
  std::string seen;
  const std::vector<std::string> others = find_other_trainings(run);
  if (!others.empty()) {
    seen = fmt::format("it started {}, which is not recognized as Megatron's GPT or BERT training",
                       fmt::join(others, ", "));
  } else {
    std::vector<std::string> programs;
    for (const Call& call : run.calls) {
      const std::string program = call.arguments.empty() ? "" : call.arguments[0];
      const bool called = call.kind == Call::Kind::call;
      if (called && std::find(programs.begin(), programs.end(), program) == programs.end())
        programs.push_back(program);
    }
    seen = ending(run);
    if (!programs.empty()) seen += fmt::format("; it called {}", fmt::join(programs, ", "));
  }
  const char* help = run.problem.empty()
                         ? ". Give values that it expects from its environment with --set "
                           "NAME=VALUE and as arguments after its name; remove what only the "
                           "cluster provides from a copy of the script"
                         : "";
  fail_input("{}: the script did not start pretrain_gpt.py or pretrain_bert.py: {}{}{}{}{}", name,
             seen, hindrances(run), settings_hint(run), help, last_lines(run.output));
}

std::string launch_line(const LaunchSize& size, const std::string& file) {
  const std::string train = fmt::format("trireme train {}", file);
  const auto count = [](std::int64_t n) { return n > 0 ? fmt::format("{}", n) : "N"; };
  if (size.slurm) {
    const std::string tasks = size.uneven > 0
                                  ? fmt::format("--ntasks={}", size.uneven)
                                  : fmt::format("--ntasks-per-node={}", count(size.per_node));
    return fmt::format("srun --nodes={} {} {}", count(size.nodes), tasks, train);
  }
  if (size.nodes == 1 && size.per_node == 1) return train;
  const char* hosts = size.nodes == 1 ? "" : "--hostfile HOSTS ";
  return fmt::format("mpirun -n {} {}{}", count(size.ranks()), hosts, train);
}

const Launch& pick_launch(const std::vector<Launch>& launches, const std::string& name,
                          int wanted) {
  if (wanted > static_cast<int>(launches.size())) {
    fail_input("{}: --launch {}: the script starts only {}", name, wanted,
               counted(launches.size(), "training"));
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
  fail_input("{}: the script starts {} different trainings: choose one with --launch N:{}", name,
             launches.size(), list);
}

}  // namespace trireme::script
