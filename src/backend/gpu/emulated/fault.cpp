// Reads the name of the injected fault.
#include "backend/gpu/emulated/fault.h"

#include <array>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace trireme::gpu::emulated {
namespace {

constexpr std::array<std::string_view, 8> names = {"no driver",     "heat",          "slow link",
                                                   "wrong results", "stuck joining", "large",
                                                   "no kernels",    "wrong library"};

int planted_fault() {
  const char* const name = std::getenv("TRIREME_EMULATED_FAULT");
  if (!name || !*name) return -1;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<int>(i);
  fail_input(
      "TRIREME_EMULATED_FAULT is '{}'; it may be 'no driver', 'heat', 'slow link', 'wrong "
      "results', 'stuck joining', 'large', 'no kernels' or 'wrong library'",
      name);
}

}  // namespace

bool planted(Fault fault) {
  static const int chosen = planted_fault();
  return chosen == static_cast<int>(fault);
}

}  // namespace trireme::gpu::emulated
