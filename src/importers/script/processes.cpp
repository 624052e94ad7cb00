// Walks the tree of processes in /proc.
#include "importers/script/processes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "base/file.h"

namespace trireme::script {
namespace {

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> result;
  std::error_code error;
  for (const fs::directory_entry& thread :
       fs::directory_iterator(fmt::format("/proc/{}/task", process), error)) {
    std::ifstream list(thread.path() / "children");
    for (pid_t child = 0; list >> child;) result.push_back(child);
  }
  return result;
}

std::uint64_t memory_of(pid_t process) {
  std::uint64_t size = 0, held = 0;
  std::ifstream(fmt::format("/proc/{}/statm", process)) >> size >> held;
  return held * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Usage usage_below(pid_t process) {
  Usage usage;
  std::vector<pid_t> open = children_of(process);
  while (!open.empty() && usage.processes < 10'000) {
    const pid_t one = open.back();
    open.pop_back();
    ++usage.processes;
    usage.bytes += memory_of(one);
    for (const pid_t child : children_of(one)) open.push_back(child);
  }
  return usage;
}

}  // namespace trireme::script
