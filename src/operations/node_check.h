// Health check of a job's nodes: each rank benchmarks its own node, and all are compared.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "comm/handshake.h"
#include "comm/transport.h"

namespace trireme {

enum class Speed { products, memory, link, storage };
inline constexpr std::size_t speeds = 4;
std::string_view name_of(Speed speed);
// "GFLOP/s" or "GB/s".
std::string_view unit_of(Speed speed);

// Measurements of a rank. Speeds below 0 were not measured: a single-rank job has no link, and only
// the first rank of a node writes files.
struct NodeMeasure {
  std::array<double, speeds> speed = {-1, -1, -1, -1};  // by Speed, in its unit
  double wrong = 0;  // number of products whose bits differ from the known result
  double products = 0;
};

struct CheckedRank {
  std::string host;
  NodeMeasure measure;
  std::string problem;  // why it could not measure, e.g. a full disk; "": no problem
};

struct NodeCheckOptions {
  double seconds = 1;      // duration of each measurement of products
  double slow = 0.7;       // a speed below this share of the median is slow
  fs::path storage = ".";  // where files are written
};

// Collective; rank 0 receives the results of all ranks, others nothing. If a rank looks bad, all
// repeat the measurement up to three times, and the best value of each speed counts.
std::vector<CheckedRank> check_nodes(Transport& transport, const NodeCheckOptions& options);

// Faults of a host, as sentences; empty: the host is good.
struct CheckedHost {
  std::string host;
  std::vector<std::string> faults;
};
struct NodeReport {
  std::vector<CheckedHost> hosts;  // in rank order
  std::array<double, speeds> median = {-1, -1, -1, -1};
  bool good(const CheckedHost& host) const { return host.faults.empty(); }
};

// Returns the hosts to exclude so that all other ranks reach each other, with reasons: those with
// most dead links first, the last one of equals. The host of a rank not heard from is "".
std::vector<CheckedHost> cut_off_hosts(const Reach& reach);

// Compares each speed with the median over all ranks that measured it; for an even number with the
// upper median, so that of two ranks the slower one is reported.
NodeReport judge_nodes(std::span<const CheckedRank> ranks, double slow);

}  // namespace trireme
