// The SLURM batch script of a training run, which requeues itself until the run is done.
#pragma once

#include <string>
#include <vector>

#include "operations/site.h"

namespace trireme {

struct SlurmJob {
  std::vector<std::string> arguments;   // of `trireme train`: the file, then overrides
  std::string run_dir;                  // run.dir, which will contain status.json
  DeviceKind device = DeviceKind::cpu;  // run.device
  std::string name;                     // of the job
  int nodes = 1, ranks_per_node = 1, cores_per_rank = 1;
  int minutes = 60;                 // wall time
  int save_seconds = 300;           // lead time before its end for saving
  std::string account, partition;   // "": omitted, or the site's
  std::string mpi;                  // srun --mpi; "": SLURM's default
  std::string container;            // image; "": none
  std::string program = "trireme";  // the ranks' path to it
  bool requeue = true;              // until the run is done
  bool check_nodes = true;          // by `trireme doctor` on each, before the run
  int restarts = 0;                 // after failures in the job, in a row without a new checkpoint
  int spare = 0;                    // extra nodes of the job, as replacements for failing ones
};

// Generates a script for sbatch, with the reason for each line that a site requires. Fails (exit
// code 2) if name, account or partition contain characters invalid in an sbatch directive.
std::string slurm_script(const Site& site, const SlurmJob& job);

// Parses "90" (minutes), "2:30:00", "1-12:00:00", as sbatch does, to minutes, rounding seconds up.
// Fails (exit code 2) on any other text, and on less than a minute.
int parse_walltime(const std::string& text);

// Formats 90 as "01:30:00".
std::string walltime_text(int minutes);

// Converts text to a job name: replaces invalid characters by dashes.
std::string job_name(const std::string& text);

// Quotes one word of a shell command line, if necessary.
std::string shell_word(const std::string& word);

}  // namespace trireme
