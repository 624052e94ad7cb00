// Built-in clusters: settings that their batch scripts require, with the reason for each
// line.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/choices.h"

namespace trireme {

// An environment variable for the ranks, in jobs of more than `above_nodes` nodes.
struct SiteVariable {
  std::string_view name, value, reason;
  std::string_view source;  // reference, with its date
  int above_nodes = 0;
};

// Maximum wall time of jobs with at most this many nodes; the first matching row applies.
struct WalltimeLimit {
  int nodes;
  int minutes;
};

struct Site {
  std::string_view name;    // as --cluster takes it
  std::string_view title;   // "LUMI-G: ..."
  std::string_view source;  // for its partition, limits and srun options, and the date it was read
  std::optional<DeviceKind> device;  // run.device of the ranks; none: from the configuration
  int ranks_per_node = 0;            // 0: must be given
  int cores_per_rank = 0;            // 0: must be given
  std::string_view machine;          // for plan --machine; "": unknown
  std::string_view partition;        // "": the cluster's default
  bool needs_account = false;        // sbatch refuses jobs without one
  std::string_view launch;           // further options of srun
  std::vector<std::string_view> directives;  // further #SBATCH lines
  std::string_view network;                  // sbatch --network, of jobs of several nodes; "": none
  std::vector<SiteVariable> variables;
  std::vector<SiteVariable> network_variables;  // for multi-node jobs only
  std::vector<WalltimeLimit> limits;            // by nodes, fewest first; empty: unknown
};

std::span<const Site> all_sites();

// Variables of the network's library and of NCCL or RCCL on Slingshot, for jobs of several nodes.
std::vector<SiteVariable> slingshot_variables();

// Finds a site by its name or its machine's name. Fails (exit code 2), naming the known sites, if
// it does not exist.
const Site& find_site(std::string_view name);
// Returns the machine of the site of that name, as plan --machine takes it; other names are
// returned unchanged.
std::string_view machine_of_site(std::string_view name);

// Returns the maximum wall time of a job of `nodes` in minutes; 0 if unknown. Fails (exit code 2)
// if a job may not have that many nodes.
int longest_walltime(const Site& site, int nodes);

}  // namespace trireme
