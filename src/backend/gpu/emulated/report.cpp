// report.h on the emulated GPU: GPUs, links and faults are set by the environment.
#include "backend/gpu/report.h"

#include <cstdlib>

#include "backend/gpu/emulated/fault.h"
#include "backend/gpu/libraries/open_library.h"
#include "backend/gpu/runtime.h"

namespace trireme::gpu {
namespace {

// Reported properties of each emulated GPU and link; nothing is measured.
constexpr std::int64_t memory = std::int64_t{64} << 30;
constexpr double link_speed = 50;
constexpr int slow_from = 2, slow_to = 5;

}  // namespace

MachineReport report() {
  using emulated::Fault;
  MachineReport report{.driver = "emulated"};
  report.problem = runtime::why_no_device();
  if (!report.problem.empty()) return report;
  const int count = std::getenv("TRIREME_EMULATED_DEVICES") ? runtime::device_count() : 1;
  for (int i = 0; i < count; ++i) {
    report.gpus.push_back({.name = runtime::device_name(),
                           .architecture = "emulated",
                           .memory = memory,
                           .free = memory});
    if (i == 0 && emulated::planted(Fault::heat)) report.gpus.back().slowed_by = "heat";
    for (int to = 0; to < count; ++to) {
      if (to == i) continue;
      const bool slow = emulated::planted(Fault::slow_link) && i == slow_from && to == slow_to;
      report.links.push_back({.from = i,
                              .to = to,
                              .direct = true,
                              .gigabytes_per_second = slow ? link_speed / 4 : link_speed});
    }
  }
  const OpenedLibrary opened = open_library();
  report.libraries.push_back({.what = "matrix products",
                              .version = opened.library ? opened.library->name() : "",
                              .instead = "the own kernel",
                              .path = opened.path,
                              .problem = opened.note,
                              .is_fault = opened.is_missing});
  LibraryReport collectives{.what = "collectives", .instead = "MPI by way of the host's memory"};
  if (const auto* const table = runtime::collectives(collectives.problem))
    collectives.version = table->name();
  collectives.is_fault = collectives.version.empty() && count > 1;
  report.libraries.push_back(collectives);
  return report;
}

}  // namespace trireme::gpu
