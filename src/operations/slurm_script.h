// The batch script of a training run under SLURM, which starts itself again until the run is done.
#pragma once

#include <string>
#include <vector>

#include "operations/site.h"

namespace trireme {

struct SlurmJob {
  std::vector<std::string> arguments;   // of `trireme train`: the file, then overrides
  std::string run_dir;                  // run.dir, where status.json will lie
  DeviceKind device = DeviceKind::cpu;  // run.device
  std::string name;                     // of the job
  int nodes = 1, ranks_per_node = 1, cores_per_rank = 1;
  int minutes = 60;                 // wall time
  int save_seconds = 300;           // time before its end at which the ranks save
  std::string account, partition;   // "": without the line, or the site's
  std::string mpi;                  // srun --mpi; "": SLURM's default
  std::string container;            // image; "": none
  std::string program = "trireme";  // how the ranks find it
  bool requeue = true;              // until the run is done
  bool check_nodes = true;          // by `trireme doctor` on each, before the run
  int restarts = 0;  // after failures, in a row without a new checkpoint, within the job
  int spare = 0;     // nodes of the job in addition to `nodes`, for those that fail
};

// A script for sbatch, each line that a site asks for with its reason. Fails (exit code 2) where
// name, account or partition hold characters that a line of sbatch cannot.
std::string slurm_script(const Site& site, const SlurmJob& job);

// "90" (minutes), "2:30:00", "1-12:00:00" as sbatch takes them, in minutes, seconds rounded up.
// Fails (exit code 2) on all else, and on less than a minute.
int parse_walltime(const std::string& text);

// 90 as "01:30:00".
std::string walltime_text(int minutes);

// The text as the name of a job: other characters than those that a name may have become dashes.
std::string job_name(const std::string& text);

// One word of a shell's command line, in quotes where it needs them.
std::string shell_word(const std::string& word);

}  // namespace trireme
