// The table of sites.
#include "cluster/site.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

constexpr int many_nodes = 250;  // of 8 ranks

// What the library of the network and RCCL need on Slingshot.
std::vector<SiteVariable> slingshot_variables() {
  return {
      {"NCCL_SOCKET_IFNAME", "hsn0",
       "RCCL's ranks find each other; without it jobs of more than about 300 nodes fail"},
      {"NCCL_NET", "OFI",
       "fail where the plug-in for Slingshot did not load, instead of crawling over TCP"},
      {"NCCL_NET_GDR_LEVEL", "PHB", "the network reads and writes the GPUs' memory itself"},
      {"NCCL_CROSS_NIC", "1", "all four network cards of a node are used"},
      {"FI_MR_CACHE_MONITOR", "userfaultfd", "the default, memhooks, deadlocks"},
      {"FI_CXI_DISABLE_HOST_REGISTER", "1", "avoids a deadlock of allocations"},
      {"FI_CXI_DEFAULT_CQ_SIZE", "131072", "large jobs overrun shorter queues"},
      {"FI_CXI_DEFAULT_TX_SIZE", "2048", "likewise"},
      {"FI_CXI_RX_MATCH_MODE", "hybrid",
       "go on in software where a network card runs out of entries"},
      {"FI_CXI_RDZV_PROTO", "alt_read", "long messages can hang otherwise"},
      {"FI_CXI_RDZV_EAGER_SIZE", "0", "likewise"},
      {"FI_CXI_RDZV_THRESHOLD", "0", "likewise"},
      {"FI_CXI_RDZV_GET_MIN", "0", "likewise"},
      {"NCCL_MAX_NCHANNELS", "20", "connecting over 2,000 ranks in a tree can hang with more",
       many_nodes},
  };
}

// Nodes of four MI250X, each of two GCDs with a rank of its own. The first core of each eight is
// the system's.
Site mi250x_site(std::string_view name, std::string_view title) {
  Site site{name, title};
  site.device = "hip";
  site.ranks_per_node = 8;
  site.cores_per_rank = 7;
  site.needs_account = true;
  site.directives = {"--gpus-per-node=8"};
  site.variables = {{"HSA_FORCE_FINE_GRAIN_PCIE", "1", "GPUs of a node reach each other's memory"},
                    {"MPICH_GPU_SUPPORT_ENABLED", "0", "MPI moves memory of the host only"}};
  site.network = "disable_rdzv_get";
  site.network_variables = slingshot_variables();
  return site;
}

Site lumi() {
  Site site = mi250x_site(
      "lumi", "LUMI-G: 4 MI250X of 2 GCDs, 56 usable cores and 4 network cards in a node");
  site.machine = "lumi-g";
  site.partition = "standard-g";
  // Of GCDs 0 to 7, whose cores lie in another order than they do.
  site.launch =
      "--cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,"
      "0xfe00000000,0xfe0000000000";
  site.directives.push_back("--mem=480G");
  site.limits = {{1024, 48 * 60}};
  return site;
}

Site frontier() {
  Site site = mi250x_site(
      "frontier", "Frontier: 4 MI250X of 2 GCDs, 56 usable cores and 4 network cards in a node");
  site.machine = "frontier";
  site.partition = "batch";
  site.launch = "--gpus-per-task=1 --gpu-bind=closest";
  site.limits = {{91, 2 * 60}, {183, 6 * 60}, {9408, 12 * 60}};
  return site;
}

Site generic() {
  return {"generic",
          "any other SLURM cluster: --ranks-per-node and --cores-per-rank say what a node has"};
}

}  // namespace

std::span<const Site> all_sites() {
  static const std::vector<Site> sites = {lumi(), frontier(), generic()};
  return sites;
}

const Site& find_site(std::string_view name) {
  std::string known;
  for (const Site& site : all_sites()) {
    if (site.name == name) return site;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", site.name);
  }
  fail_input("unknown cluster '{}': expected one of {}", name, known);
}

int longest_walltime(const Site& site, int nodes) {
  if (site.limits.empty()) return 0;
  for (const WalltimeLimit& limit : site.limits)
    if (nodes <= limit.nodes) return limit.minutes;
  fail_input("--nodes {}: a job on {} has at most {} nodes", nodes, site.name,
             site.limits.back().nodes);
}

}  // namespace trireme
