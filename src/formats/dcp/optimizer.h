// The states of AdamW in a folder of torch.distributed.checkpoint.
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
  // Finds the states of parameters by their names, whatever the key that the optimizer's state has
  // in the folder. Refused (exit code 2): states of some parameters and not of others.
  DcpOptimizer(const DcpFolder& folder, const std::vector<std::string>& parameters);

  // Whether the states are there; if not, why() says what was found instead, or "".
  bool is_there() const { return !prefix_.empty(); }
  const std::string& why() const { return why_; }
  // The parameter whose states hold those of another: itself, but for torchtitan's queries, keys
  // and values that were trained as one.
  const std::string& owner(const std::string& parameter) const;
  // The first (0) or second (1) moment of an owner.
  const DcpTensor& moment(const std::string& parameter, int which) const;
  // Steps that the optimizer did. Refused (exit code 2) where parameters differ.
  std::int64_t steps() const;

  // Fills what its groups say. Returns what they say and [optimizer] cannot, or "".
  std::string read_settings(OptimizerConfig& optimizer) const;

 private:
  bool find_states();
  // What the names of each parameter's settings begin with: "optimizer.param_groups.0.".
  std::map<std::string, std::string> groups() const;
  std::optional<std::pair<double, double>> pair(const std::string& name) const;

  const DcpFolder& folder_;
  std::vector<std::string> parameters_;        // that have states
  std::map<std::string, std::string> owners_;  // of those that have none of their own
  std::string prefix_;                         // of the states: "optimizer.state."
  std::string groups_;                         // of the groups: "optimizer.param_groups."
  std::string why_;
};

}  // namespace trireme
