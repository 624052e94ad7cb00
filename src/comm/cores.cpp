// Processors in the order of the machine, from /sys, and the parts that processes stay on.
#include "comm/cores.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <tuple>

namespace trireme {
namespace {

// A number that /sys tells about a processor; 0 where it does not, as in some containers.
int topology(int processor, const char* what) {
  int value = 0;
  std::ifstream("/sys/devices/system/cpu/cpu" + std::to_string(processor) + "/topology/" + what) >>
      value;
  return value;
}

}  // namespace

std::vector<int> own_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {};
  std::vector<std::tuple<int, int, int>> places;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &set)) continue;
    places.emplace_back(topology(processor, "physical_package_id"), topology(processor, "core_id"),
                        processor);
  }
  std::sort(places.begin(), places.end());
  std::vector<int> processors;
  processors.reserve(places.size());
  for (const auto& place : places) processors.push_back(std::get<2>(place));
  return processors;
}

std::vector<int> part_of(const std::vector<int>& processors, int index, int count) {
  const std::size_t size = processors.size();
  if (size < static_cast<std::size_t>(count)) return {};
  const auto cut = [&](int part) {
    return processors.begin() + static_cast<std::ptrdiff_t>(size * part / count);
  };
  return {cut(index), cut(index + 1)};
}

void share_processors(int index, int count) {
  const char* const expected = std::getenv(share_processors_variable);
  if (!expected) return;
  const std::vector<int> all = own_processors();
  if (std::to_string(all.size()) != expected) return;  // the launcher or the user has bound it
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : part_of(all, index, count)) CPU_SET(processor, &set);
  if (CPU_COUNT(&set) > 0) sched_setaffinity(0, sizeof set, &set);
}

}  // namespace trireme
