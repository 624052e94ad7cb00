// AdamW states in a torch.distributed.checkpoint folder.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "formats/dcp/folder.h"

namespace trireme {

class DcpOptimizer {
 public:
  // Finds parameter states by name, under any key of the optimizer's state. Refused (exit code 2):
  // states for only some of the parameters.
  DcpOptimizer(const DcpFolder& folder, const std::vector<std::string>& parameters);

  // Whether states are present; if not, why() describes what was found instead, or is "".
  bool is_there() const { return !prefix_.empty(); }
  const std::string& why() const { return why_; }
  // The parameter whose states include those of `parameter`: itself, except for torchtitan's
  // queries, keys and values trained as one parameter.
  const std::string& owner(const std::string& parameter) const;
  // The first (0) or second (1) moment of an owner.
  const DcpTensor& moment(const std::string& parameter, int which) const;
  // Number of optimizer steps. Refused (exit code 2) if it differs between parameters.
  std::int64_t steps() const;

  // Fills in the groups' settings. Returns settings that [optimizer] cannot represent, or "".
  std::string read_settings(OptimizerConfig& optimizer) const;

 private:
  bool find_states();
  // Name prefixes of each parameter's settings: "optimizer.param_groups.0.".
  std::map<std::string, std::string> groups() const;
  std::optional<std::pair<double, double>> pair(const std::string& name) const;

  const DcpFolder& folder_;
  std::vector<std::string> parameters_;        // with states
  std::map<std::string, std::string> owners_;  // of those whose states are in another's
  std::string prefix_;                         // of the states: "optimizer.state."
  std::string groups_;                         // of the groups: "optimizer.param_groups."
  std::string why_;
};

}  // namespace trireme
