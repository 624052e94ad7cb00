// Processors in topology order, from /sys, and the binding of processes to parts of them.
#include "comm/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <tuple>

namespace trireme {
namespace {

// Reads a processor's topology value from /sys; 0 if it is missing, as in some containers.
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

std::vector<int> processors_near(const std::vector<int>& processors, int node) {
  std::vector<int> near;
  for (const int processor : processors) {
    const std::string folder = "/sys/devices/system/node/node" + std::to_string(node) + "/cpu";
    if (access((folder + std::to_string(processor)).c_str(), F_OK) == 0) near.push_back(processor);
  }
  return near;
}

std::vector<int> near_part_of(const std::vector<int>& nodes, int index,
                              const std::function<std::vector<int>(int node)>& near) {
  for (const int node : nodes) {
    const auto parts = std::count(nodes.begin(), nodes.end(), node);
    if (node < 0 || near(node).size() < static_cast<std::size_t>(parts)) return {};
  }
  const int own = nodes[static_cast<std::size_t>(index)];
  const auto before = std::count(nodes.begin(), nodes.begin() + index, own);
  const auto parts = std::count(nodes.begin(), nodes.end(), own);
  return part_of(near(own), static_cast<int>(before), static_cast<int>(parts));
}

void share_processors(int index, int count, const std::vector<int>& nodes) {
  const char* const expected = std::getenv(share_processors_variable);
  if (!expected) return;
  const std::vector<int> all = own_processors();
  if (std::to_string(all.size()) != expected) return;  // bound by the launcher or the user
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> part;
  if (static_cast<int>(nodes.size()) >= count) {
    part = near_part_of({nodes.begin(), nodes.begin() + count}, index,
                        [&](int node) { return processors_near(all, node); });
  }
  if (part.empty()) part = part_of(all, index, count);
  for (const int processor : part) CPU_SET(processor, &set);
  if (CPU_COUNT(&set) > 0) sched_setaffinity(0, sizeof set, &set);
}

}  // namespace trireme
