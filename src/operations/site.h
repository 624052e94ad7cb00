// Clusters whose nodes the program knows: what a batch script there has to say, with the reason for
// each line.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/choices.h"

namespace trireme {

// An environment variable of the ranks, in jobs of more than `above` nodes.
struct SiteVariable {
  std::string_view name, value, reason;
  std::string_view source;  // the source, and when it was written or read
  int above_nodes = 0;
};

// Longest time of jobs of at most this many nodes; the first row that holds a job counts.
struct WalltimeLimit {
  int nodes;
  int minutes;
};

struct Site {
  std::string_view name;    // as --cluster takes it
  std::string_view title;   // "LUMI-G: ..."
  std::string_view source;  // of its partition, limits and options of srun, and when it was read
  std::optional<DeviceKind> device;  // run.device of its ranks; none: what the configuration says
  int ranks_per_node = 0;            // 0: has to be given
  int cores_per_rank = 0;            // 0: has to be given
  std::string_view machine;          // of its devices, as plan --machine takes it; "": unknown
  std::string_view partition;        // "": that of the cluster
  bool needs_account = false;        // sbatch refuses jobs without one
  std::string_view launch;           // further options of srun
  std::vector<std::string_view> directives;  // further #SBATCH lines
  std::string_view network;                  // sbatch --network, of jobs of several nodes; "": none
  std::vector<SiteVariable> variables;
  std::vector<SiteVariable> network_variables;  // of jobs of several nodes only
  std::vector<WalltimeLimit> limits;            // by nodes, fewest first; empty: unknown
};

std::span<const Site> all_sites();

// Finds a site by its name or that of its machine. Fails (exit code 2), naming those that are
// known, if there is no such site.
const Site& find_site(std::string_view name);
// The machine of the site of that name, as plan --machine takes it; any other name is returned as
// it is.
std::string_view machine_of_site(std::string_view name);

// The longest time of a job of `nodes`, in minutes; 0 if it is not known. Fails (exit code 2) if a
// job may not have that many.
int longest_walltime(const Site& site, int nodes);

}  // namespace trireme
