// Puts a batch script together, part by part in the order in which it runs.
#include "cluster/slurm_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>

#include "base/counted.h"
#include "base/error.h"

namespace trireme {
namespace {

std::string heading(const Site& site, const SlurmJob& job) {
  return fmt::format(
      "#!/bin/bash\n"
      "# Written by `trireme slurm --cluster {}`: {} of {}.\n"
      "# Submit it with sbatch, from the folder that the paths in it start from.\n",
      site.name, counted(job.nodes, "node"), counted(job.ranks_per_node, "rank"));
}

std::string directives(const Site& site, const SlurmJob& job) {
  std::string text;
  const auto line = [&](const std::string& option) { text += "#SBATCH " + option + "\n"; };
  line("--job-name=" + job.name);
  if (!job.account.empty()) line("--account=" + job.account);
  const std::string partition = job.partition.empty() ? std::string(site.partition) : job.partition;
  if (!partition.empty()) line("--partition=" + partition);
  line(fmt::format("--nodes={}", job.nodes));
  line(fmt::format("--ntasks-per-node={}", job.ranks_per_node));
  line(fmt::format("--cpus-per-task={}", job.cores_per_rank));
  for (const std::string_view option : site.directives) line(std::string(option));
  if (site.name == "generic" && job.device != "cpu" && job.device != "emulated")
    line(fmt::format("--gpus-per-node={}", job.ranks_per_node));
  line("--exclusive");
  line("--time=" + walltime_text(job.minutes));
  line("--output=%x-%j.out");
  line("--open-mode=append");
  text += fmt::format(
      "# {} before the end the ranks are told to save; they then end with exit code 3.\n",
      counted(job.save_seconds, "second"));
  line(fmt::format("--signal=USR1@{}", job.save_seconds));
  if (job.requeue) line("--requeue");
  return text;
}

std::string variables(const Site& site, const SlurmJob& job) {
  std::string text;
  const auto add = [&](const SiteVariable& one) {
    text += fmt::format("# {}\nexport {}={}\n", one.reason, one.name, one.value);
  };
  for (const SiteVariable& one : site.variables) add(one);
  if (job.nodes > 1)
    for (const SiteVariable& one : site.network_variables) add(one);
  add({"TRIREME_THREADS", "$SLURM_CPUS_PER_TASK", "a thread for each core of a rank"});
  return text;
}

// What stands in front of the program on each node.
std::string inside(const SlurmJob& job) {
  if (job.container.empty()) return shell_word(job.program);
  return fmt::format("singularity exec --bind \"$PWD\" {} {}", shell_word(job.container),
                     shell_word(job.program));
}

std::string check(const SlurmJob& job) {
  const std::string device = job.device == "cpu" ? "" : " --device " + job.device;
  return fmt::format(
      "# A node that computes wrong results or has lost a GPU is named before it costs hours.\n"
      "check='report=$({} doctor{} 2>&1) || {{ echo \"$report\" | sed \"s/^/$(hostname): /\"; exit "
      "1; }}'\n"
      "if ! srun --ntasks-per-node=1 --cpus-per-task={} bash -c \"$check\"; then\n"
      "    echo \"a node failed the check above: leave it out with sbatch --exclude=NODE\" >&2\n"
      "    exit 1\n"
      "fi\n",
      inside(job), device, job.cores_per_rank * job.ranks_per_node);
}

std::string launch(const Site& site, const SlurmJob& job) {
  std::vector<std::string> words = {"srun"};
  if (!job.mpi.empty()) words.push_back("--mpi=" + job.mpi);
  words.push_back("--cpus-per-task=" + std::to_string(job.cores_per_rank));
  words.emplace_back("--kill-on-bad-exit=1");
  words.emplace_back("--wait=60");
  std::string text = fmt::format("{}", fmt::join(words, " "));
  if (!site.launch.empty()) text += fmt::format(" \\\n    {}", site.launch);
  text += " \\\n    " + inside(job) + " train";
  for (const std::string& argument : job.arguments) text += " " + shell_word(argument);
  return text + "\ncode=$?\n";
}

// Exit code 3 is a run that was interrupted and saved, 0 one that is done or stopped as planned.
std::string again(const SlurmJob& job) {
  return fmt::format(
      "# Start again until the run is done, unless the last start saved nothing new.\n"
      "run={}\n"
      "saved=$(grep -o '\"saved_step\": *[0-9]*' \"$run/status.json\" | grep -o '[0-9]*$')\n"
      "if [ $code -eq 3 ] || {{ [ $code -eq 0 ] && ! grep -q '\"state\": *\"done\"' "
      "\"$run/status.json\"; }}; then\n"
      "    if [ \"$saved\" = \"$(cat \"$run/slurm_saved_step\" 2>/dev/null)\" ]; then\n"
      "        echo \"no step was saved since the last start: not started again\" >&2\n"
      "        exit 1\n"
      "    fi\n"
      "    echo \"$saved\" >\"$run/slurm_saved_step\"\n"
      "    scontrol requeue \"$SLURM_JOB_ID\"\n"
      "fi\n"
      "exit $code\n",
      shell_word(job.run_dir));
}

bool is_plain(char c) {
  constexpr std::string_view others = "_-./,:=@%+";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         others.find(c) != std::string_view::npos;
}

// Digits only, at most six of them; -1 for all else.
int number_in(std::string_view text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  if (text.empty() || text.size() > 6 || text.front() == '-') return -1;
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? value : -1;
}

}  // namespace

std::string shell_word(const std::string& word) {
  bool plain = !word.empty();
  for (const char c : word) plain = plain && is_plain(c);
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string slurm_script(const Site& site, const SlurmJob& job) {
  std::vector<std::string> parts = {heading(site, job) + directives(site, job),
                                    variables(site, job)};
  if (job.check_nodes) parts.push_back(check(job));
  parts.push_back(launch(site, job) + (job.requeue ? "" : "exit $code\n"));
  if (job.requeue) parts.push_back(again(job));
  return fmt::format("{}", fmt::join(parts, "\n"));
}

int parse_walltime(const std::string& text) {
  std::string_view rest = text;
  int days = 0;
  const std::size_t dash = rest.find('-');
  if (dash != std::string_view::npos) {
    days = number_in(rest.substr(0, dash));
    rest.remove_prefix(dash + 1);
  }
  std::array<int, 3> parts{};
  std::size_t count = 0;
  bool good = days >= 0;
  for (;; rest.remove_prefix(rest.find(':') + 1)) {
    const std::size_t colon = rest.find(':');
    const int value = number_in(rest.substr(0, colon));
    if (value < 0 || count == parts.size()) {
      good = false;
      break;
    }
    parts[count++] = value;
    if (colon == std::string_view::npos) break;
  }
  // sbatch reads minutes, minutes:seconds and hours:minutes:seconds; behind days also hours and
  // hours:minutes.
  std::int64_t seconds = 0;
  if (good && dash != std::string_view::npos)
    seconds = ((days * 24LL + parts[0]) * 60 + parts[1]) * 60 + parts[2];
  else if (good && count == 3)
    seconds = (parts[0] * 60LL + parts[1]) * 60 + parts[2];
  else if (good)
    seconds = parts[0] * 60LL + parts[1];
  const std::int64_t minutes = (seconds + 59) / 60;
  if (!good || minutes < 1 || minutes > 366LL * 24 * 60)
    fail_input(
        "--time '{}': expected hours:minutes:seconds, as 12:00:00, or days before them, as "
        "1-12:00:00",
        text);
  return static_cast<int>(minutes);
}

std::string walltime_text(int minutes) {
  return fmt::format("{:02}:{:02}:00", minutes / 60, minutes % 60);
}

}  // namespace trireme
