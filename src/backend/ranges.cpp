// Opens the profilers' libraries with dlopen; each has two functions.
#include "backend/ranges.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::array levels = {"step", "pass", "segment", "op"};
constexpr std::array usual_libraries = {"libnvToolsExt.so.1", "librocprofiler-sdk-roctx.so.1",
                                        "libroctx64.so.4", "libroctx64.so"};
constexpr std::array<std::array<const char*, 2>, 2> functions = {
    {{"nvtxRangePushA", "nvtxRangePop"}, {"roctxRangePushA", "roctxRangePop"}}};

int (*push_range)(const char*) = nullptr;
int (*pop_range)() = nullptr;

// Never closed: a profiler may use it until the process ends.
bool take_library(const std::string& name) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  for (const auto& [push, pop] : functions) {
    push_range = reinterpret_cast<int (*)(const char*)>(dlsym(library, push));
    pop_range = reinterpret_cast<int (*)()>(dlsym(library, pop));
    if (push_range && pop_range) return true;
  }
  return false;
}

}  // namespace

void ProfilerRange::open_library() {
  const char* const wanted = std::getenv("TRIREME_RANGES");
  if (!wanted || !*wanted || deepest_ != Level::none) return;
  std::size_t level = 0;
  while (level < levels.size() && std::string_view(wanted) != levels[level]) ++level;
  if (level == levels.size())
    fail_input("TRIREME_RANGES is '{}': it must be one of {}", wanted, fmt::join(levels, ", "));
  std::vector<std::string> names(usual_libraries.begin(), usual_libraries.end());
  if (const char* const own = std::getenv("TRIREME_RANGES_LIBRARY"); own && *own) names = {own};
  for (const std::string& name : names) {
    if (!take_library(name)) continue;
    deepest_ = static_cast<Level>(level + 1);
    return;
  }
  fail_input(
      "TRIREME_RANGES = {} requires a profiler library, but none of {} can be opened and has {} or "
      "{}: set TRIREME_RANGES_LIBRARY to one, or unset TRIREME_RANGES",
      wanted, fmt::join(names, ", "), functions[0][0], functions[1][0]);
}

void ProfilerRange::push(const char* name, std::int64_t number) {
  push_range(number < 0 ? name : fmt::format("{} {}", name, number).c_str());
}

void ProfilerRange::pop() {
  pop_range();
}

}  // namespace trireme
