// Whether the nodes of a job are good: each rank measures its own, and all are compared.
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

// Measurements of a rank. A speed below 0 was not measured: a job of one rank has no link, and only
// the first rank of a node writes files.
struct NodeMeasure {
  std::array<double, speeds> speed = {-1, -1, -1, -1};  // by Speed, in its unit
  double wrong = 0;  // products with other bits than they must have
  double products = 0;
};

struct CheckedRank {
  std::string host;
  NodeMeasure measure;
  std::string problem;  // that kept it from measuring, such as a full disk; "": none
};

struct NodeCheckOptions {
  double seconds = 1;      // of products, each time
  double slow = 0.7;       // a speed below this share of the median is slow
  fs::path storage = ".";  // where files are written
};

// All ranks together; rank 0 gets all ranks, the others nothing. Where one looks bad, all measure
// up to three times, and the best of each speed counts.
std::vector<CheckedRank> check_nodes(Transport& transport, const NodeCheckOptions& options);

// Faults of a host, as sentences; none: it is good.
struct CheckedHost {
  std::string host;
  std::vector<std::string> faults;
};
struct NodeReport {
  std::vector<CheckedHost> hosts;  // in the order of ranks
  std::array<double, speeds> median = {-1, -1, -1, -1};
  bool good(const CheckedHost& host) const { return host.faults.empty(); }
};

// The hosts to leave out so that all other ranks reach each other, and why: those with most dead
// links first, of several the last. The host of a rank that this one does not hear is "".
std::vector<CheckedHost> cut_off_hosts(const Reach& reach);

// Compares each speed with the median of all ranks that have measured it; of an even number with
// the higher one in the middle, so that of two the slower one is named.
NodeReport judge_nodes(std::span<const CheckedRank> ranks, double slow);

}  // namespace trireme
