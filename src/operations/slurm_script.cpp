// Generates a batch script in order of execution.
#include "operations/slurm_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/counted.h"
#include "base/error.h"

namespace trireme {
namespace {

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_plain(char c) {
  constexpr std::string_view others = "_-./,:=@%+";
  return is_letter_or_digit(c) || others.find(c) != std::string_view::npos;
}

constexpr std::string_view name_punctuation = "_-.,:@+";

bool is_name_character(char c) {
  return is_letter_or_digit(c) || name_punctuation.find(c) != std::string_view::npos;
}

std::string heading(const Site& site, const SlurmJob& job) {
  return fmt::format(
      "#!/bin/bash\n"
      "# Written by `trireme slurm --cluster {}`: {} of {}{}.\n"
      "# Submit it with sbatch, from the folder that its relative paths refer to.\n"
      "{}",
      site.name, counted(job.nodes, "node"), counted(job.ranks_per_node, "rank"),
      job.spare > 0 ? fmt::format(", plus {} spare", job.spare) : "",
      site.source.empty() ? ""
                          : fmt::format("# Partition, limits and binding: {}.\n", site.source));
}

// Rejects values with quotes, blanks or '#', which sbatch parses specially, and line breaks, which
// would start a new script line.
const std::string& directive_value(const char* flag, const std::string& value) {
  for (const char c : value)
    if (!is_name_character(c))
      fail_input("{} '{}': expected letters, digits and any of {}", flag, value, name_punctuation);
  return value;
}

std::string directives(const Site& site, const SlurmJob& job) {
  std::string text;
  const auto line = [&](const std::string& option) { text += "#SBATCH " + option + "\n"; };
  line("--job-name=" + directive_value("--name", job.name));
  if (!job.account.empty()) line("--account=" + directive_value("--account", job.account));
  const std::string partition = job.partition.empty() ? std::string(site.partition) : job.partition;
  if (!partition.empty()) line("--partition=" + directive_value("--partition", partition));
  line(fmt::format("--nodes={}", job.nodes + job.spare));
  line(fmt::format("--ntasks-per-node={}", job.ranks_per_node));
  line(fmt::format("--cpus-per-task={}", job.cores_per_rank));
  for (const std::string_view option : site.directives) line(std::string(option));
  if (site.name == "generic" && (job.device == DeviceKind::cuda || job.device == DeviceKind::hip))
    line(fmt::format("--gpus-per-node={}", job.ranks_per_node));
  if (!site.network.empty() && job.nodes > 1) {
    text += "# FI_CXI_RDZV_PROTO=alt_read below needs it.\n";
    line(fmt::format("--network={}", site.network));
  }
  line("--exclusive");
  // Exclusive nodes come with all cores, but only with the requested memory.
  if (site.name == "generic") line("--mem=0");
  line("--time=" + walltime_text(job.minutes));
  if (job.spare > 0) {
    text += "# By default SLURM ends a job that loses a node; this job has spare nodes.\n";
    line("--no-kill");
  }
  line("--output=%x-%j.out");
  line("--open-mode=append");
  text += fmt::format(
      "# {} before the time limit the ranks receive a signal to save; they then end with exit code "
      "3.\n",
      counted(job.save_seconds, "second"));
  line(fmt::format("--signal=USR1@{}", job.save_seconds));
  line(job.requeue ? "--requeue" : "--no-requeue");
  return text;
}

std::string variables(const Site& site, const SlurmJob& job) {
  std::string text;
  const auto add = [&](const SiteVariable& one) {
    text += fmt::format("# {} ({})\nexport {}={}\n", one.reason, one.source, one.name, one.value);
  };
  for (const SiteVariable& one : site.variables) add(one);
  for (const SiteVariable& one : site.network_variables)
    if (job.nodes > std::max(1, one.above_nodes)) add(one);
  add({"TRIREME_THREADS", "$SLURM_CPUS_PER_TASK", "one thread per core of a rank", "Trireme"});
  return text;
}

// The container command before the program on each node.
std::string inside(const SlurmJob& job) {
  if (job.container.empty()) return shell_word(job.program);
  // CUDA driver libraries come from the node, not from the image.
  return fmt::format("singularity exec{} --bind \"$PWD\" {} {}",
                     job.device == DeviceKind::cuda ? " --nv" : "", shell_word(job.container),
                     shell_word(job.program));
}

// Prints a node's name if it is good, otherwise the reason.
std::string check_of_a_node() {
  return "check='report=$(timeout -k 10 600 \"$@\" 2>&1) || {\n"
         "    printf \"%s\\n\" \"$report\" \"exit code $? (124: it took over ten minutes)\" |\n"
         "        sed \"s/^/$(hostname): /\" >&2\n"
         "    exit 1\n"
         "}\n"
         "echo \"$SLURMD_NODENAME\"'\n";
}

std::string check(const SlurmJob& job) {
  const std::string device =
      job.device == DeviceKind::cpu ? "" : fmt::format(" --device {}", job.device);
  const std::string step = fmt::format(
      "srun --nodes={0} --ntasks={0} --ntasks-per-node=1 --cpus-per-task={1} --kill-on-bad-exit=0 "
      "\\\n"
      "    bash -c \"$check\" check {2} doctor{3}",
      job.nodes + job.spare, job.cores_per_rank * job.ranks_per_node, inside(job), device);
  const std::string text =
      "# Detects nodes that compute wrong results or have lost a GPU before they waste hours.\n" +
      check_of_a_node() + "# One task per node, regardless of what sbatch has set for the run.\n";
  if (job.spare > 0) return text + step + " > \"$hosts\"\n";
  return text + "if ! " + step +
         " > /dev/null; then\n"
         "    echo \"a node failed the check above: exclude it with sbatch --exclude=NODE\" "
         ">&2\n"
         "    exit 1\n"
         "fi\n";
}

// Nodes for the run; with a check, only those found good.
std::string hosts(const SlurmJob& job) {
  std::string text =
      "# The nodes of the job, one per line: the first ones run, the others are spares.\n"
      "hosts=$(mktemp) || exit 1\n"
      "trap 'rm -f \"$hosts\"' EXIT\n";
  if (!job.check_nodes) text += "scontrol show hostnames \"$SLURM_JOB_NODELIST\" > \"$hosts\"\n";
  return text;
}

std::string launch(const Site& site, const SlurmJob& job) {
  std::string text;
  if (job.restarts > 0) {
    text += fmt::format(
        "# After a failure the run restarts from its last checkpoint, within this job.\n"
        "{} supervise --restarts {} --run \"$run\"",
        shell_word(job.program), job.restarts);
    if (job.spare > 0) text += fmt::format(" --hosts \"$hosts\" --nodes {}", job.nodes);
    text += " -- \\\n";
  }
  std::vector<std::string> words = {"srun"};
  if (!job.mpi.empty()) words.push_back(shell_word("--mpi=" + job.mpi));
  if (job.spare > 0) {
    // After the loss of a node, the step of that start does not end until the node is up again.
    words.emplace_back("--overlap");
    words.push_back(fmt::format("--nodes={}", job.nodes));
    words.push_back(fmt::format("--ntasks={}", job.nodes * job.ranks_per_node));
    words.emplace_back("--nodelist='{hosts}'");
  }
  words.push_back("--cpus-per-task=" + std::to_string(job.cores_per_rank));
  words.emplace_back("--kill-on-bad-exit=1");
  words.emplace_back("--wait=60");
  text += fmt::format("{}", fmt::join(words, " "));
  if (!site.launch.empty()) text += fmt::format(" \\\n    {}", site.launch);
  text += " \\\n    " + inside(job) + " train";
  for (const std::string& argument : job.arguments) text += " " + shell_word(argument);
  return text + "\ncode=$?\n";
}

std::string run_folder_line(const SlurmJob& job) {
  return fmt::format("run={}\n", shell_word(job.run_dir));
}

// Progress saved by the run before this start.
std::string progress_before() {
  return "# A value in the run's status.json, or nothing.\n"
         "status() {\n"
         "    sed -n \"s/.*\\\"$1\\\": *\\\"*\\([a-z0-9]*\\).*/\\1/p\" \"$run/status.json\" "
         "2>/dev/null\n"
         "}\n"
         "saved_before=$(status saved_step)\n";
}

std::string again() {
  return "# Requeue until the run is done, unless this start saved nothing new. status.json decides: "
         "srun\n"
         "# does not end with code 3 if it killed ranks that ended after the first.\n"
         "case $(status state) in\n"
         "interrupted | stopped)\n"
         "    if [ \"$(status saved_step)\" != \"${saved_before:-0}\" ]; then\n"
         "        scontrol requeue \"$SLURM_JOB_ID\"\n"
         "        exit $code\n"
         "    fi\n"
         "    echo \"this start saved no step: not requeued\" >&2\n"
         "    case $code in 0 | 3) exit 1 ;; esac\n"
         "    ;;\n"
         "esac\n"
         "exit $code\n";
}

// At most six digits; -1 for anything else.
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

std::string job_name(const std::string& text) {
  std::string name = text;
  for (char& c : name)
    if (!is_name_character(c)) c = '-';
  return name;
}

std::string slurm_script(const Site& site, const SlurmJob& job) {
  if (job.restarts > 0 && !job.container.empty())
    fail_input(
        "--restarts runs srun again from the batch script, where trireme is needed outside of the "
        "container {}: remove one of the two",
        job.container);
  if (job.spare > 0 && job.restarts == 0)
    fail_input("--spare {} requires --restarts: add --restarts N", job.spare);
  std::vector<std::string> parts = {heading(site, job) + directives(site, job),
                                    variables(site, job)};
  if (job.spare > 0) parts.push_back(hosts(job));
  if (job.check_nodes) parts.push_back(check(job));
  if (job.requeue || job.restarts > 0) parts.push_back(run_folder_line(job));
  if (job.requeue) parts.back() += progress_before();
  parts.push_back(launch(site, job) + (job.requeue ? "" : "exit $code\n"));
  if (job.requeue) parts.push_back(again());
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
  // sbatch accepts minutes, minutes:seconds and hours:minutes:seconds; after days also hours and
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
        "--time '{}': expected hours:minutes:seconds, such as 12:00:00, optionally preceded by "
        "days, such as 1-12:00:00",
        text);
  return static_cast<int>(minutes);
}

std::string walltime_text(int minutes) {
  return fmt::format("{:02}:{:02}:00", minutes / 60, minutes % 60);
}

}  // namespace trireme
