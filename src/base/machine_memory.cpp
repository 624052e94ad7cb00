// Reads the machine's memory and cgroup limits.
#include "base/machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/file.h"

namespace trireme {
namespace {

// Smallest limit of a cgroup and its ancestors, up to the root of the hierarchy. Folders that are
// not visible in this namespace are skipped.
std::int64_t smallest_limit(const fs::path& root, const std::string& group, const char* file) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (fs::path at = fs::path(group).lexically_normal().relative_path();; at = at.parent_path()) {
    std::int64_t limit = 0;  // stays 0 for "max"
    if (std::ifstream(root / at / file) >> limit && limit > 0) smallest = std::min(smallest, limit);
    if (at.empty()) return smallest;
  }
}

}  // namespace

std::int64_t control_group_memory_bytes(const std::string& groups, const std::string& root) {
  // The root of a container's cgroup namespace has the container's limits.
  std::int64_t limit = std::min(smallest_limit(root, "", "memory.max"),
                                smallest_limit(root + "/memory", "", "memory.limit_in_bytes"));
  std::ifstream lines(groups);
  for (std::string line; std::getline(lines, line);) {  // number:controllers:path
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      limit = std::min(limit, smallest_limit(root, path, "memory.max"));
      limit = std::min(limit, smallest_limit(root + "/unified", path, "memory.max"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      limit = std::min(limit, smallest_limit(root + "/memory", path, "memory.limit_in_bytes"));
    }
  }
  return limit;
}

std::int64_t machine_memory_bytes() {
  const std::int64_t bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::min(bytes, control_group_memory_bytes("/proc/self/cgroup", "/sys/fs/cgroup"));
}

}  // namespace trireme
