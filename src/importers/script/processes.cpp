// Walks the process tree in /proc.
#include "importers/script/processes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
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

struct ProcessorTime {
  std::chrono::milliseconds own{};
  std::chrono::milliseconds ended{};  // of children that were waited for, recursively
};

ProcessorTime time_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  // The process may exit at any moment; stream functions treat read errors as end of file.
  std::string text;
  std::getline(file, text, '\0');
  // The second field is a name in parentheses, which may contain any character.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  std::int64_t user = 0, system = 0, ended_user = 0, ended_system = 0;
  fields >> user >> system >> ended_user >> ended_system;
  const auto time = [](std::int64_t ticks) {
    return std::chrono::milliseconds(ticks * 1000 / sysconf(_SC_CLK_TCK));
  };
  return {time(user + system), time(ended_user + ended_system)};
}

}  // namespace

Usage usage_below(pid_t process) {
  Usage usage;
  usage.time = time_of(process).ended;
  std::vector<pid_t> open = children_of(process);
  while (!open.empty() && usage.processes < 10'000) {
    const pid_t one = open.back();
    open.pop_back();
    ++usage.processes;
    usage.bytes += memory_of(one);
    const ProcessorTime time = time_of(one);
    usage.time += time.own + time.ended;
    for (const pid_t child : children_of(one)) open.push_back(child);
  }
  return usage;
}

}  // namespace trireme::script
