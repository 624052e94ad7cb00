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
  std::int64_t ranks = 0;  // 0: the fewest that [parallel] takes
  std::string memory;      // of a rank, "64GiB"; "": run.memory, or that of a device of the machine
  std::string machine;     // name or file; "": this machine, of whose speed nothing is known
  std::string stack = "trireme";
  bool startup = false, resumes = false;
  int ranks_on_node = 0;    // with startup; 0: the devices of a node, or 8
  std::string config_file;  // that the ranks would read at the start
};

struct PlanAnswer {
  int ranks = 0;
  std::int64_t limit = 0;  // bytes of a rank; 0: not known
  Machine machine;
  const Stack* stack = nullptr;
  LayoutPlan plan;
  std::optional<TimePlan> time;    // where the machine has figures
  std::optional<StartPlan> start;  // where it was asked for
  std::optional<Verdict> verdict;  // where there is a limit
  std::vector<std::string> notes;
};

// Refuses (exit code 2) what check_run() and the request get wrong. `config` gets the vocabulary
// that is assumed where its files do not say it.
PlanAnswer answer_plan(Config& config, const PlanRequest& request);

// Serializes the answer as `trireme plan --json` prints it.
std::string to_json_text(const PlanAnswer& answer);

// The target of the run: the machine that was named, or the device of the configuration.
Machine machine_for(const Config& config, const std::string& name);

}  // namespace trireme
