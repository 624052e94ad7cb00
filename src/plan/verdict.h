// Whether a layout fits into device and host memory and, if not, which changes would make it fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/host_memory.h"
#include "plan/layout_plan.h"

namespace trireme {

// A change to the configuration that was also planned.
struct Alternative {
  std::vector<std::string> overrides;  // as on the command line
  std::int64_t needed = 0;             // bytes of the rank that needs most
};

struct Verdict {
  std::int64_t limit = 0;
  int pipeline_rank = 0;              // that needs most
  std::int64_t planned = 0;           // its memory in the plan
  std::int64_t besides = 0;           // other memory, estimated
  std::vector<MemoryRegion> largest;  // its regions, largest first, at most five
  NodeHost host;                      // of GPUs
  std::int64_t on_host = 0;           // of the ranks of the node that keeps most there
  StoredBytes kept;                   // part of it, for the rank that keeps most
  std::vector<Alternative> fitting;   // if it does not fit: changes that would, smallest first
  bool tried = false;                 // whether alternatives were looked for

  std::int64_t needed() const { return planned + besides; }
  bool fits_device() const { return needed() <= limit; }
  bool fits_host() const { return host.memory == 0 || on_host <= host.memory; }
  bool fits() const { return fits_device() && fits_host(); }
};

// `config` is the source of `plan`, for `ranks` ranks. Plans alternatives if it does not fit.
Verdict judge(const LayoutPlan& plan, const Config& config, int ranks, std::int64_t limit,
              const NodeHost& host = {});

// Formats the verdict as `trireme plan --memory` prints it.
std::string to_text(const Verdict& verdict);

}  // namespace trireme
