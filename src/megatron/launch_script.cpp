// The bounds of a script, its #SBATCH lines, and the size of a launch.
#include "megatron/launch_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "megatron/shell_runner.h"

namespace trireme::megatron {
namespace {

constexpr std::size_t kLongestScript = 1 << 20;

void check_text(const std::string& text, const std::string& name) {
  if (text.size() > kLongestScript) {
    fail_input("{}: {} bytes are no launch script; at most {} are read", name, text.size(),
               kLongestScript);
  }
  const auto odd = std::find_if(text.begin(), text.end(), [](unsigned char c) {
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
  });
  if (odd == text.end()) return;
  fail_input("{}:{}: holds a control character; that is no shell script", name,
             1 + std::count(text.begin(), odd, '\n'));
}

std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while ((at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.emplace_back(line.substr(at, end - at));
    if (words.back().starts_with('#')) {  // a comment behind the options
      words.pop_back();
      break;
    }
    at = end;
  }
  return words;
}

std::vector<std::string> sbatch_words(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    if (line.starts_with("#SBATCH")) {
      for (std::string& word : split_words(line.substr(7))) words.push_back(std::move(word));
    }
    at = end + 1;
  }
  return words;
}

// The number that an option gives: "--name N", "--name=N", "-nN"; 0 where it is given but not
// known, -1 where it is not given. Of "1:4" and "gpu:8" the last number counts.
std::int64_t option(const std::vector<std::string>& words,
                    std::initializer_list<const char*> names) {
  for (std::size_t i = words.size(); i-- > 0;) {
    for (const std::string name : names) {
      std::string value;
      const bool is_short = name.size() == 2;
      if (words[i] == name) {
        value = i + 1 < words.size() ? words[i + 1] : "";
      } else if (words[i].starts_with(name + "=")) {
        value = words[i].substr(name.size() + 1);
      } else if (is_short && words[i].starts_with(name)) {
        value = words[i].substr(2);
      } else {
        continue;
      }
      const std::size_t colon = value.rfind(':');
      if (colon != std::string::npos) value = value.substr(colon + 1);
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      const bool whole = error == std::errc() && end == value.data() + value.size();
      return whole && number > 0 && number <= (1 << 20) ? number : 0;
    }
  }
  return -1;
}

bool has_command(const std::vector<std::string>& words, const std::string& name) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word == name || word.ends_with("/" + name);
  });
}

// The first that is known, else 0 if one was given, else `otherwise`.
std::int64_t first_known(std::initializer_list<std::int64_t> values, std::int64_t otherwise) {
  bool given = false;
  for (const std::int64_t value : values) {
    if (value > 0) return value;
    given = given || value == 0;
  }
  return given ? 0 : otherwise;
}

}  // namespace

LaunchScript read_launch_script(const std::string& text, const ScriptOptions& options) {
  check_text(text, options.name);
  LaunchScript result;
  result.sbatch = sbatch_words(text);
  ShellRun run;
  run.found = &result;
  run.state.script = options.name;
  run.state.positional = options.arguments;
  for (const auto& [name, value] : options.variables) run.state.variables[name] = {value};
  ShellRunner(run, 0, 0, {}).run(text);
  return result;
}

LaunchSize launch_size(const Launch& launch, const std::vector<std::string>& sbatch) {
  const std::vector<std::string>& words = launch.launcher;
  LaunchSize size;
  const bool srun = has_command(words, "srun");
  size.slurm = srun || !sbatch.empty();
  const std::int64_t nodes_of_sbatch = option(sbatch, {"--nodes", "-N"});
  const std::int64_t tasks_per_node = option(sbatch, {"--ntasks-per-node"});
  const std::int64_t gpus =
      first_known({option(sbatch, {"--gpus-per-node"}), option(sbatch, {"--gres"})}, -1);
  if (has_command(words, "deepspeed")) {
    size.nodes = first_known({option(words, {"--num_nodes"}), nodes_of_sbatch}, 1);
    size.per_node = first_known({option(words, {"--num_gpus"}), gpus}, 0);
    return size;
  }
  const std::int64_t torch_ranks = option(words, {"--nproc_per_node", "--nproc-per-node"});
  if (torch_ranks >= 0) {
    size.nodes = first_known({option(words, {"--nnodes"}), nodes_of_sbatch}, 1);
    size.per_node = first_known({torch_ranks, gpus}, 0);
    return size;
  }
  if (has_command(words, "mpirun") || has_command(words, "mpiexec")) {
    size.per_node = first_known({option(words, {"-np", "-n", "--np"})}, 0);
    return size;
  }
  if (!srun) return size;
  size.nodes = first_known({option(words, {"--nodes", "-N"}), nodes_of_sbatch}, 1);
  const std::int64_t tasks = option(words, {"--ntasks", "-n"});
  const std::int64_t per_node = option(words, {"--ntasks-per-node"});
  if (per_node < 1 && tasks > 0 && size.nodes > 0 && tasks % size.nodes == 0) {
    size.per_node = tasks / size.nodes;
  } else {
    size.per_node = first_known({per_node, tasks_per_node, gpus}, 0);
  }
  return size;
}

}  // namespace trireme::megatron
