// `trireme slurm`: generates the batch script of a run on a cluster.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/new_file.h"
#include "operations/site.h"
#include "operations/slurm_script.h"
#include "plan/machine.h"
#include "plan/verdict.h"
#include "runtime/devices.h"
#include "train/run/setup.h"

namespace trireme::cli {
namespace {

struct SlurmArguments {
  std::string cluster, time, output;
  int ranks_per_node = 0, cores_per_rank = 0;
  bool once = false, unchecked = false;
  SlurmJob job;
};

// Returns the site's value, or otherwise the user's; both must agree.
int of_node(int said, int known, const Site& site, const char* flag, const char* what) {
  if (said == 0 && known == 0)
    fail_input("--cluster {} does not define the number of {}: add {}", site.name, what, flag);
  if (said != 0 && known != 0 && said != known)
    fail_input("{} {}: {} has only {} {}", flag, said, site.name, known, what);
  return said != 0 ? said : known;
}

void check_time(const Site& site, const SlurmJob& job) {
  // Other partitions have different limits.
  const bool usual = job.partition.empty() || job.partition == site.partition;
  const int longest = usual ? longest_walltime(site, job.nodes) : 0;
  if (longest > 0 && job.minutes > longest)
    fail_input("--time {}: jobs of {} on {} are limited to {}", walltime_text(job.minutes),
               counted(job.nodes, "node"), site.name, walltime_text(longest));
  if (job.save_seconds >= 60 * job.minutes)
    fail_input("--save-seconds {}: expected less than the {} of --time", job.save_seconds,
               walltime_text(job.minutes));
}

// A job that does not fit would fail at once, after days in the queue.
void check_memory(const Config& config, const Site& site, int ranks) {
  if (site.machine.empty()) return;
  Config planned = config;
  assume_vocabulary(planned);
  const LayoutPlan plan = plan_layout(planned, ranks, target_of(planned.run.device));
  const Verdict verdict = judge(plan, planned, ranks, device_memory_of(std::string(site.machine)));
  if (!verdict.fits())
    fail_input("this does not fit on {} of {}\n{}", counted(ranks, "GPU"), site.name,
               to_text(verdict));
}

int all_ranks(const SlurmJob& job) {
  constexpr std::int64_t most = 1 << 20;
  const std::int64_t ranks = static_cast<std::int64_t>(job.nodes) * job.ranks_per_node;
  if (ranks > most)
    fail_input("--nodes {} of {} ranks each: expected at most {} ranks", job.nodes,
               job.ranks_per_node, most);
  return static_cast<int>(ranks);
}

void run(SlurmArguments& arguments) {
  require_new_file(arguments.output);
  const Site& site = find_site(arguments.cluster);
  SlurmJob& job = arguments.job;
  job.minutes = parse_walltime(arguments.time);
  job.ranks_per_node = of_node(arguments.ranks_per_node, site.ranks_per_node, site,
                               "--ranks-per-node", "ranks per node");
  job.cores_per_rank = of_node(arguments.cores_per_rank, site.cores_per_rank, site,
                               "--cores-per-rank", "cores per rank");
  job.requeue = !arguments.once;
  job.check_nodes = !arguments.unchecked;
  check_time(site, job);
  if (site.needs_account && job.account.empty())
    fail_input("{} requires an account: add --account PROJECT", site.name);

  const std::vector<std::string> overrides(job.arguments.begin() + 1, job.arguments.end());
  const Config config = load_config(job.arguments.front(), overrides);
  const int ranks = all_ranks(job);
  check_start(config, ranks);
  if (site.device && config.run.device != *site.device)
    fail_input("run.device is \"{}\", but the nodes of {} have GPUs: add run.device={}",
               config.run.device, site.name, *site.device);
  check_memory(config, site, ranks);
  job.run_dir = config.run.dir;
  job.device = config.run.device;
  if (job.name.empty()) job.name = job_name(fs::path(job.arguments.front()).stem());

  const std::string script = slurm_script(site, job);
  if (arguments.output.empty()) {
    fmt::print("{}", script);
    return;
  }
  write_file_durably(arguments.output, script);
  fmt::print("batch script written to {}; submit it with: sbatch {}\n", arguments.output,
             shell_word(arguments.output));
}

std::string names_of_sites() {
  std::vector<std::string_view> names;
  for (const Site& site : all_sites()) names.push_back(site.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

void add_slurm(CLI::App& app) {
  auto* command =
      app.add_subcommand("slurm", "Write a batch script for a training run on a SLURM cluster");
  auto arguments = std::make_shared<SlurmArguments>();
  SlurmJob& job = arguments->job;
  command
      ->add_option("file", job.arguments, "TOML file and section.key=value overrides, as for train")
      ->required();
  command->add_option("--cluster", arguments->cluster, fmt::format("Cluster: {}", names_of_sites()))
      ->required();
  command->add_option("--nodes", job.nodes, "Number of nodes")
      ->required()
      ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--time", arguments->time,
                   "Time limit of the job, such as 12:00:00 or 1-12:00:00")
      ->required();
  command->add_option("--account", job.account, "Account (project) to charge");
  command->add_option("--partition", job.partition,
                      "Partition (default: the cluster's for large jobs on GPUs)");
  command->add_option("--name", job.name, "Name of the job (default: the name of the file)");
  command
      ->add_option("--ranks-per-node", arguments->ranks_per_node,
                   "Ranks per node, one per GPU, for the generic cluster")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--cores-per-rank", arguments->cores_per_rank,
                   "Cores per rank, for the generic cluster")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--save-seconds", job.save_seconds,
                   "Seconds before the time limit at which the run saves and stops")
      ->check(CLI::Range(1, 65535))  // sbatch's maximum
      ->capture_default_str();
  command->add_option("--mpi", job.mpi,
                      "srun --mpi, for example pmix or pmi2 (default: the cluster's)");
  command->add_option("--container", job.container,
                      "Singularity or Apptainer image that contains trireme");
  command->add_option("--program", job.program, "Command or path of trireme on the nodes")
      ->capture_default_str();
  command
      ->add_option("--restarts", job.restarts,
                   "After a failure, restart the run within the job, at most this many times in a "
                   "row without a new checkpoint")
      ->check(CLI::Range(0, 1000));
  command
      ->add_option("--spare", job.spare,
                   "Spare nodes that the job requests in addition to --nodes, to replace nodes "
                   "that fail")
      ->check(CLI::Range(0, 1 << 16));
  command->add_flag("--once", arguments->once, "Do not requeue the job if the run is not finished");
  command->add_flag("--no-check", arguments->unchecked,
                    "Start without running trireme doctor on each node first");
  command->add_option("-o,--output", arguments->output,
                      "Write to this file, which must not exist, instead of the terminal");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace trireme::cli
