// Findings of `trireme doctor`, and its part on GPUs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/kinds.h"
#include "operations/node_check.h"

namespace trireme::cli {

enum class State { good, note, fault };

struct Finding {
  std::string what, text;
  State state = State::good;
  std::string advice;  // where the state is not good
};

// The GPUs of `device`, or, where none is given, of each vendor's plug-in
// that is there: driver, GPUs, links, libraries, and whether products are right. A driver that is
// missing is a fault only on a device that was asked for.
std::vector<Finding> gpu_findings(std::optional<DeviceKind> device);

struct NodesCommand {
  NodeCheckOptions check;
  std::string hosts;  // file for the names of the good nodes; "": none
  bool json = false;
  double timeout_s = 60;  // for a rank that hangs, or cannot be reached
};

// Collective over all ranks of a job. Fails (exit code 1) if a node is bad, after naming it.
void doctor_nodes(const NodesCommand& command);

}  // namespace trireme::cli
