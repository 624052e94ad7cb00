// The table of known clusters.
#include "operations/site.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"

namespace trireme {
namespace {

// References for variables. The guides of both sites change: each entry is dated.
constexpr std::string_view olcf =
    "OLCF's guide \"PyTorch on Frontier\", variables that HPE and AMD recommend, read in 2026-11";
constexpr std::string_view olcf_rendezvous =
    "OLCF's guide \"PyTorch on Frontier\", alternative rendezvous protocol, read in 2026-11";
constexpr std::string_view isambard =
    "NCCL guide of Isambard-AI, which has the same network, read in 2026-11";
constexpr std::string_view own = "Trireme";

constexpr int nodes_of_many_connections = 8;

}  // namespace

// NCCL_NET_GDR_LEVEL is left to RCCL, which detects it: PHB and SYS hang jobs of several nodes
// since ROCm 7 (lumi-ai-factory/laifs-container-recipes #30, 2026-04-23; LUMI-AI-Guide #97,
// 2026-05-04, took it out without losing speed).
std::vector<SiteVariable> slingshot_variables() {
  return {
      {"NCCL_SOCKET_IFNAME", "hsn0",
       "RCCL bootstraps over the high-speed network; without it jobs on more than about 300 nodes "
       "fail",
       olcf},
      {"NCCL_NET", "OFI",
       "fail if the Slingshot plug-in cannot be loaded, instead of falling back to slow TCP. If "
       "the plug-in is called AWS Libfabric, use that name here",
       "public scripts for Slingshot with aws-ofi-nccl 1.14, read in 2026-11"},
      {"NCCL_CROSS_NIC", "1", "use all four network cards of a node", olcf},
      {"FI_MR_CACHE_MONITOR", "userfaultfd", "the default, memhooks, can deadlock",
       "LUMI-AI-Guide #118, 2026-09-15, and OLCF's guide, read in 2026-11"},
      {"FI_CXI_DISABLE_HOST_REGISTER", "1", "avoids a deadlock in allocations", isambard},
      {"FI_CXI_DEFAULT_CQ_SIZE", "131072", "large jobs overflow shorter queues", olcf},
      {"FI_CXI_DEFAULT_TX_SIZE", "2048", "large jobs overflow shorter queues", olcf},
      {"FI_CXI_RX_MATCH_MODE", "hybrid",
       "fall back to software matching if a network card runs out of entries", olcf},
      {"FI_CXI_RDZV_PROTO", "alt_read", "long messages can hang otherwise", olcf_rendezvous},
      {"FI_CXI_RDZV_EAGER_SIZE", "0", "long messages can hang otherwise", isambard},
      {"FI_CXI_RDZV_THRESHOLD", "0", "long messages can hang otherwise", isambard},
      {"FI_CXI_RDZV_GET_MIN", "0", "long messages can hang otherwise", isambard},
      {"NCCL_MAX_NCHANNELS", "20",
       "with aws-ofi-nccl 1.19 and 1.20 start-up hangs above about 2,000 connections per job",
       "aws/aws-ofi-nccl #1379, 2026-08-27, seen on 16 nodes", nodes_of_many_connections},
  };
}

namespace {

// Nodes of four MI250X, each with two GCDs, one rank per GCD. The first of every eight cores is
// reserved for the system.
Site mi250x_site(std::string_view name, std::string_view title) {
  Site site{.name = name, .title = title};
  site.device = DeviceKind::hip;
  site.ranks_per_node = 8;
  site.cores_per_rank = 7;
  site.needs_account = true;
  site.directives = {"--gpus-per-node=8"};
  site.variables = {
      {"HSA_FORCE_FINE_GRAIN_PCIE", "1", "allows peer access between the GPUs of a node",
       "RCCL's own warning at start-up, version 2.16.5"},
      {"MPICH_GPU_SUPPORT_ENABLED", "0", "MPI transfers host memory only", own}};
  site.network = "disable_rdzv_get";
  site.network_variables = slingshot_variables();
  return site;
}

Site lumi() {
  Site site = mi250x_site(
      "lumi", "LUMI-G: 4 MI250X with 2 GCDs each, 56 usable cores and 4 network cards per node");
  site.machine = "lumi-g";
  site.source = "LUMI user guide, partitions and binding, read in 2026-11";
  site.partition = "standard-g";
  // Cores of GCDs 0 to 7: their order differs from that of the GCDs.
  site.launch =
      "--cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,"
      "0xfe00000000,0xfe0000000000";
  site.directives.push_back("--mem=480G");
  site.limits = {{1024, 48 * 60}};
  return site;
}

Site frontier() {
  Site site = mi250x_site(
      "frontier",
      "Frontier: 4 MI250X with 2 GCDs each, 56 usable cores and 4 network cards per node");
  site.machine = "frontier";
  site.source = "OLCF's Frontier user guide, read in 2026-11";
  site.partition = "batch";
  site.launch = "--gpus-per-task=1 --gpu-bind=closest";
  site.limits = {{91, 2 * 60}, {183, 6 * 60}, {9408, 12 * 60}};
  return site;
}

Site generic() {
  return {
      .name = "generic",
      .title = "any other SLURM cluster: --ranks-per-node and --cores-per-rank describe a node"};
}

}  // namespace

std::span<const Site> all_sites() {
  static const std::vector<Site> sites = {lumi(), frontier(), generic()};
  return sites;
}

const Site& find_site(std::string_view name) {
  std::string known;
  for (const Site& site : all_sites()) {
    if (site.name == name || (!site.machine.empty() && site.machine == name)) return site;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", site.name);
  }
  fail_input("unknown cluster '{}': expected one of {}", name, known);
}

std::string_view machine_of_site(std::string_view name) {
  for (const Site& site : all_sites())
    if (site.name == name && !site.machine.empty()) return site.machine;
  return name;
}

int longest_walltime(const Site& site, int nodes) {
  if (site.limits.empty()) return 0;
  for (const WalltimeLimit& limit : site.limits)
    if (nodes <= limit.nodes) return limit.minutes;
  fail_input("--nodes {}: jobs on {} are limited to {}", nodes, site.name,
             counted(site.limits.back().nodes, "node"));
}

}  // namespace trireme
