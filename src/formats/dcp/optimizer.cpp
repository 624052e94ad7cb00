// States and groups as named by torch.distributed.checkpoint.state_dict: groups are numbered, or
// each parameter has the settings of its group.
#include "formats/dcp/optimizer.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "formats/llama/names.h"
#include "tensors/optimizer_states.h"

namespace trireme {
namespace {

constexpr std::array<const char*, adam_moments> moment_endings{".exp_avg", ".exp_avg_sq"};
constexpr const char* step_ending = ".step";

// Distinct values of a setting over all parameters, or over one kind of parameter.
struct Setting {
  std::set<double> values;
  void add(std::optional<double> value) {
    if (value) values.insert(*value);
  }
  bool is_one() const { return values.size() == 1; }
  double one() const { return *values.begin(); }
};

}  // namespace

DcpOptimizer::DcpOptimizer(const DcpFolder& folder, const std::vector<std::string>& parameters)
    : folder_(folder), parameters_(parameters) {
  TRIREME_CHECK(!parameters_.empty());
  if (!find_states()) return;
  for (std::string& parameter : parameters_) {
    const std::string fused = torchtitan_fused_name(parameter);
    const auto has_states = [&](const std::string& name) {
      return folder_.find(prefix_ + name + moment_endings[0]) != nullptr;
    };
    if (fused.empty() || has_states(parameter) || !has_states(fused)) continue;
    owners_[parameter] = fused;
    parameter = fused;
  }
  if (folder_.find(prefix_ + parameters_[0] + ".max_exp_avg_sq")) {
    why_ = "the states of its optimizer are left out: they are those of AMSGrad";
    prefix_.clear();
    return;
  }
  for (const std::string& parameter : parameters_) {
    for (const char* ending : moment_endings) {
      if (folder_.find(prefix_ + parameter + ending)) continue;
      fail_input("'{}' has no '{}{}{}', although other parameters have this optimizer state",
                 folder_.where(), prefix_, parameter, ending);
    }
  }
  // "optimizer.state." and "optimizer.param_groups."
  groups_ = prefix_.substr(0, prefix_.size() - std::string_view("state.").size()) + "param_groups.";
}

bool DcpOptimizer::find_states() {
  const std::string first = "state." + parameters_[0] + moment_endings[0];
  std::string other;
  for (const DcpTensor& tensor : folder_.metadata().tensors) {
    const std::string& name = tensor.name;
    if (name.ends_with(first)) {
      const std::size_t at = name.size() - first.size();
      if (at > 0 && name[at - 1] != '.') continue;
      prefix_ = name.substr(0, at) + "state.";
      return true;
    }
    if (name.find("state.") != name.npos && name.starts_with("opt") && other.empty()) other = name;
  }
  if (!other.empty()) {
    why_ = fmt::format(
        "the states of its optimizer are left out: '{}' is there, and '{}' was expected, as "
        "get_optimizer_state_dict of torch.distributed.checkpoint.state_dict names those of AdamW",
        printable(other), "optimizer." + first);
  }
  return false;
}

const std::string& DcpOptimizer::owner(const std::string& parameter) const {
  const auto found = owners_.find(parameter);
  return found == owners_.end() ? parameter : found->second;
}

const DcpTensor& DcpOptimizer::moment(const std::string& parameter, int which) const {
  return *folder_.find(prefix_ + parameter + moment_endings[static_cast<std::size_t>(which)]);
}

std::int64_t DcpOptimizer::steps() const {
  std::map<double, std::string> seen;
  for (const std::string& parameter : parameters_) {
    const std::string name = prefix_ + parameter + step_ending;
    const auto step = folder_.number(name);
    if (!step || *step < 0 || *step > 1e15) {
      fail_input("'{}': '{}' is {}, but a number of steps is expected", folder_.where(), name,
                 step ? fmt::format("{}", *step) : "missing");
    }
    seen.emplace(*step, name);
  }
  if (seen.size() > 1) {
    fail_input(
        "'{}': '{}' is {} and '{}' is {}, but all parameters must have taken the same number of "
        "steps",
        folder_.where(), seen.begin()->second, seen.begin()->first, seen.rbegin()->second,
        seen.rbegin()->first);
  }
  return static_cast<std::int64_t>(seen.begin()->first);
}

std::map<std::string, std::string> DcpOptimizer::groups() const {
  std::map<std::string, std::string> groups;
  for (const std::string& parameter : parameters_) groups[parameter] = groups_ + parameter + ".";
  for (int i = 0;; ++i) {
    const std::string prefix = fmt::format("{}{}.", groups_, i);
    const auto file = folder_.open(prefix + "params");
    if (!file) return groups;
    const Pickle& pickle = file->pickle();
    for (const PickleId id : pickle.children(pickle.root())) {
      if (pickle.kind(id) == PickleKind::text) groups[std::string(pickle[id].text)] = prefix;
    }
  }
}

std::optional<std::pair<double, double>> DcpOptimizer::pair(const std::string& name) const {
  const auto file = folder_.open(name);
  if (!file) return std::nullopt;
  const Pickle& pickle = file->pickle();
  const auto items = pickle.children(pickle.root());
  if (items.size() != 2) return std::nullopt;
  const auto number = [&](PickleId id) {
    const PickleValue& value = pickle[id];
    if (value.kind == PickleKind::integer) return static_cast<double>(value.integer);
    if (value.kind == PickleKind::real) return value.real();
    fail_input("'{}': {} is {}, but two numbers are expected", folder_.where(), name,
               pickle.shown(id));
  };
  return std::pair(number(items[0]), number(items[1]));
}

std::string DcpOptimizer::read_settings(OptimizerConfig& optimizer) const {
  const auto group_of = groups();
  Setting lr, beta1, beta2, eps, matrices, vectors;
  for (const std::string& parameter : parameters_) {
    const std::string& group = group_of.at(parameter);
    const auto initial = folder_.number(group + "initial_lr");
    lr.add(initial ? initial : folder_.number(group + "lr"));
    eps.add(folder_.number(group + "eps"));
    if (const auto betas = pair(group + "betas")) {
      beta1.add(betas->first);
      beta2.add(betas->second);
    }
    const bool is_vector = moment(parameter, 0).shape.size() < 2;
    (is_vector ? vectors : matrices).add(folder_.number(group + "weight_decay"));
  }
  std::string note;
  const auto take = [&](const Setting& from, double& to, const char* what) {
    if (from.is_one()) to = from.one();
    if (from.values.size() > 1) {
      note += fmt::format("{}its groups differ in {}: optimizer.{} is {}", note.empty() ? "" : "; ",
                          what, what, to);
    }
  };
  take(lr, optimizer.lr, "lr");
  take(beta1, optimizer.beta1, "beta1");
  take(beta2, optimizer.beta2, "beta2");
  take(eps, optimizer.eps, "eps");
  take(matrices, optimizer.weight_decay, "weight_decay");
  optimizer.decay_vectors =
      vectors.is_one() && vectors.one() != 0 && vectors.values == matrices.values;
  if (vectors.values.size() > 1 ||
      (vectors.is_one() && vectors.one() != 0 && !optimizer.decay_vectors)) {
    note += fmt::format("{}biases and norms decayed otherwise than matrices, and here they do not",
                        note.empty() ? "" : "; ");
  }
  return note;
}

}  // namespace trireme
