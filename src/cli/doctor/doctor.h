// Findings of `trireme doctor`, and its GPU checks.
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
  std::string advice;  // if the state is not good
};

// Checks the GPUs of `device` or, if none is given, of each installed vendor plug-in: driver, GPUs,
// links, libraries, and correctness of products. A missing driver is a fault only for an explicitly
// requested device.
std::vector<Finding> gpu_findings(std::optional<DeviceKind> device);

struct NodesCommand {
  NodeCheckOptions check;
  std::string hosts;  // output file for the names of good nodes; "": none
  bool json = false;
  double timeout_s = 60;  // for a rank that hangs or is unreachable
};

// Collective over all ranks of a job. Fails (exit code 1), naming the nodes, if any are bad.
void doctor_nodes(const NodesCommand& command);

}  // namespace trireme::cli
