// Request for a plan and its complete answer: the same for `trireme plan` and for programs that
// link the library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "plan/layout_plan.h"
#include "plan/machine.h"
#include "plan/start_up.h"
#include "plan/time_plan.h"
#include "plan/verdict.h"

namespace trireme {

struct PlanRequest {
  std::int64_t ranks = 0;  // 0: the minimum for [parallel]
  std::string memory;      // of a rank, "64GiB"; "": run.memory, or that of a device of the machine
  std::string machine;     // name or file; "": this machine, whose speed is unknown
  std::string stack = "trireme";
  bool startup = false, resumes = false;
  int ranks_on_node = 0;    // with startup; 0: the devices of a node, or 8
  std::string config_file;  // read by the ranks at the start
};

struct PlanAnswer {
  int ranks = 0;
  std::int64_t limit = 0;  // bytes of a rank; 0: not known
  Machine machine;
  const Stack* stack = nullptr;
  LayoutPlan plan;
  std::optional<TimePlan> time;    // if the machine has figures
  std::optional<StartPlan> start;  // if requested
  std::optional<Verdict> verdict;  // if there is a limit
  std::vector<std::string> notes;
};

// Rejects (exit code 2) errors of check_run() and of the request. Sets the assumed vocabulary in
// `config` if its files do not provide one.
PlanAnswer answer_plan(Config& config, const PlanRequest& request);

// Serializes the answer as `trireme plan --json` prints it.
std::string to_json_text(const PlanAnswer& answer);

// The target of the run: the named machine, or the configuration's device.
Machine machine_for(const Config& config, const std::string& name);

}  // namespace trireme
