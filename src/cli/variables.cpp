// The names that the program, its plug-ins and its scripts read.
#include "cli/variables.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "base/error.h"
#include "comm/transport.h"
#include "config/nearest.h"

namespace trireme::cli {
namespace {

constexpr std::string_view prefix = "TRIREME_";

const std::vector<std::string>& known_names() {
  static const std::vector<std::string> names = {
      "TRIREME_ARROW",
      "TRIREME_BUILD",
      "TRIREME_EMULATED_COLLECTIVES",
      "TRIREME_EMULATED_DEVICES",
      "TRIREME_EMULATED_FAULT",
      "TRIREME_EMULATED_LIBRARY",
      "TRIREME_EMULATED_MEMORY",
      "TRIREME_GPU_LIBRARIES",
      "TRIREME_GPU_UNDER_TEST",
      "TRIREME_ISA",
      "TRIREME_JOB_FILE",
      "TRIREME_LAUNCHER_WAIT",
      "TRIREME_LAYOUTS",
      "TRIREME_LAYOUTS_SEED",
      "TRIREME_LONG_TESTS",
      "TRIREME_MPIRUN",
      "TRIREME_ONEDNN",
      "TRIREME_PROGRAM",
      "TRIREME_RANGES",
      "TRIREME_RANGES_LIBRARY",
      "TRIREME_REFERENCE_VENV",
      "TRIREME_ROCM",
      "TRIREME_SCALE",
      "TRIREME_SEED",
      "TRIREME_SHARE_PROCESSORS",
      "TRIREME_SLOW_RANK_SECONDS",
      "TRIREME_STREAM_ORDER",
      "TRIREME_SYNCHRONOUS_SENDS",
      "TRIREME_THREADS",
      "TRIREME_UPDATE_DOCS",
      "TRIREME_WAVE",
  };
  return names;
}

// Variables of the tests and of the substitutes for GPU libraries, which have many.
bool is_for_tests(std::string_view name) {
  return name.starts_with("TRIREME_TEST_") || name.starts_with("TRIREME_PTX_");
}

// All names begin alike: what follows decides.
std::string nearest_of(const std::string& name) {
  std::vector<std::string> ends;
  for (const std::string& known : known_names()) ends.push_back(known.substr(prefix.size()));
  const std::string nearest = nearest_name(name.substr(prefix.size()), ends);
  return nearest.empty() ? "" : std::string(prefix) + nearest;
}

bool is_first_rank() {
  try {
    return discover_launch().rank == 0;
  } catch (const Error&) {
    return true;
  }
}

}  // namespace

std::vector<OwnVariable> own_variables() {
  std::vector<OwnVariable> found;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    OwnVariable one{std::string(text.substr(0, text.find('=')))};
    if (!one.name.starts_with(prefix)) continue;
    one.known = is_for_tests(one.name) || std::ranges::count(known_names(), one.name) > 0;
    if (!one.known) one.nearest = nearest_of(one.name);
    found.push_back(std::move(one));
  }
  std::ranges::sort(found, {}, &OwnVariable::name);
  return found;
}

void warn_of_misspelt_variables() {
  for (const OwnVariable& one : own_variables()) {
    if (one.known || one.nearest.empty() || !is_first_rank()) continue;
    std::fprintf(stderr, "trireme: warning: %s is set but has no effect: did you mean %s?\n",
                 one.name.c_str(), one.nearest.c_str());
  }
}

}  // namespace trireme::cli
