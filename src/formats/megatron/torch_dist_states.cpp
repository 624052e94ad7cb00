// Finds the optimizer states of each tensor, by name or in flat buffers.
#include <algorithm>

#include "base/counted.h"
#include "formats/megatron/torch_dist_folder.h"
#include "formats/zero_states.h"
#include "tensors/optimizer_states.h"

namespace trireme {
namespace {

constexpr const char* states_key = "optimizer.state.";
constexpr const char* reshardable =
    "; with --dist-ckpt-optim-fully-reshardable the run saves them under the names of tensors";

// Step counts stored with the states: those of parameters (PyTorch's Adam) and of groups of them
// (Transformer Engine's).
struct StepCounts {
  std::vector<double> of_parameters, of_groups;
  std::size_t size() const { return of_parameters.size() + of_groups.size(); }
};

// The optimizer may be nested in an "optimizer", next to a loss scaler.
void add_steps(const TorchFile& file, PickleId optimizer, StepCounts& counts) {
  const Pickle& pickle = file.pickle();
  // Several optimizers, one of them for experts, are keyed by number.
  if (pickle.kind(optimizer) == PickleKind::dict) {
    const auto items = pickle.children(optimizer);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      if (pickle.kind(items[i]) == PickleKind::integer) add_steps(file, items[i + 1], counts);
  }
  optimizer = pickle.find(optimizer, "optimizer").value_or(optimizer);
  const auto look_in = [&](PickleId at, const char* key, std::vector<double>& found) {
    if (const auto step = pickle.find(at, key)) found.push_back(optimizer_step(file, *step));
  };
  if (const auto state = pickle.find(optimizer, "state"))
    look_in(*state, "common_step", counts.of_parameters);
  const auto groups = pickle.find(optimizer, "param_groups");
  if (groups && pickle.kind(*groups) == PickleKind::list)
    for (const PickleId group : pickle.children(*groups)) look_in(group, "step", counts.of_groups);
}

// An optimizer counts in one of both places, and keeps what it loaded in the other. Such a count is
// from before the run's last steps, so that a count of all `steps` of the run is not one.
std::optional<std::int64_t> one_count(const StepCounts& counts, std::optional<std::int64_t> steps) {
  std::vector<double> told;
  for (const auto* kind : {&counts.of_parameters, &counts.of_groups}) {
    if (kind->empty()) continue;
    if (std::ranges::any_of(*kind, [&](double one) { return one != kind->front(); })) return {};
    told.push_back(kind->front());
  }
  if (told.empty()) return std::nullopt;
  const auto [least, most] = std::ranges::minmax(told);
  if (least == most) return whole_count(most);
  const auto count = whole_count(most);
  return whole_count(least) && count == steps ? count : std::nullopt;
}

struct NamedCut {
  std::string name;
  MegatronCut cut;
};

// Joins a weight (`moment` -1) or a moment. For replicated parameters uses the first rank, which is
// the one that Megatron saves.
JoinedTensor join_flat(const std::vector<MegatronFlatRank>& ranks, const NamedCut& parameter,
                       int moment, const ModelConfig& model) {
  RankParts parts;
  for (const MegatronFlatRank& rank : ranks) {
    const WeightFile& file = rank.file(moment);
    parts.push_back({&file, file.find(parameter.name)});
    if (parameter.cut == MegatronCut::none) break;
  }
  const std::string name = moment < 0 ? parameter.name : moment_name(parameter.name, moment);
  return join_megatron_parts(name, parameter.cut, parts, model);
}

}  // namespace

const DcpTensor* TorchDistFolder::state(const std::string& kind, const DcpTensor& tensor) const {
  return dcp_->find(states_key + kind + "." + tensor.name);
}

// Step count: rank-independent state is in "optimizer"; flat buffers have it per rank group.
// Returns nullopt if it is missing or uncertain.
std::optional<std::int64_t> TorchDistFolder::optimizer_steps() const {
  StepCounts counts;
  const auto optimizer = common_->pickle().find(root_, "optimizer");
  if (optimizer) add_steps(*common_, *optimizer, counts);
  for (const std::string& name : flat_ ? flat_->group_values() : std::vector<std::string>()) {
    const auto file = dcp_->open(name);
    if (!file) return std::nullopt;
    const std::size_t before = counts.size();
    add_steps(*file, only_child(file->pickle(), file->pickle().root()), counts);
    if (counts.size() == before) return std::nullopt;
  }
  return one_count(counts, common_->pickle().find_integer(root_, "iteration"));
}

// Returns why the optimizer states cannot be imported; "" if all of them can.
std::string TorchDistFolder::unusable_states() const {
  const auto any = [&](const auto& is_one) {
    return std::ranges::any_of(dcp_->metadata().tensors,
                               [&](const DcpTensor& tensor) { return is_one(tensor.name); });
  };
  const auto holds = [](const char* key) {
    return [=](const std::string& name) { return name.find(key) != name.npos; };
  };
  if (flat_) return flat_->fault().empty() ? "" : flat_->fault() + reshardable;
  if (any(holds("gbuf_idx_")) || any(holds(".param_state")))
    return std::string("they lie in buffers of a form that is not read") + reshardable;
  for (const char* kind : torch_moment_keys) {
    const std::string key = fmt::format("{}{}.", states_key, kind);
    if (!any([&](const std::string& name) { return name.starts_with(key); }))
      return fmt::format("there are none called '{}*', so that it was not Adam", key);
    for (const Found& found : found_) {
      if (!has_moments(full_name(found.how, 0))) continue;
      const DcpTensor* moment = state(kind, *found.tensor);
      if (!moment) return fmt::format("'{}' has no {}", found.tensor->name, kind);
      if (moment->shape == found.tensor->shape) continue;
      return fmt::format("'{}' has the shape {}, and its tensor {}", moment->name,
                         shape_text(moment->shape), shape_text(found.tensor->shape));
    }
  }
  return "";
}

// Finds all states or none.
void TorchDistFolder::find_states() {
  const bool has_states = std::ranges::any_of(dcp_->metadata().tensors, [](const auto& tensor) {
    return tensor.name.starts_with("optimizer.") || tensor.name.starts_with("chained_");
  });
  if (!has_states) return;
  const bool is_flat = std::ranges::any_of(dcp_->metadata().tensors, [](const auto& tensor) {
    return MegatronFlatBuffers::is_one(tensor.name);
  });
  if (is_flat) {
    flat_ = std::make_unique<MegatronFlatBuffers>(
        dcp_, count_argument("tensor_model_parallel_size").value_or(1));
  }
  std::string why = unusable_states();
  const auto iteration = common_->pickle().find_integer(root_, "iteration");
  if (why.empty()) {
    const auto steps = optimizer_steps();
    if (steps && iteration && *steps > 0 && *steps <= *iteration) {
      progress_ = {*iteration, *steps};
      return;
    }
    why = !steps || !iteration
              ? fmt::format(
                    "'{}' does not say how many steps it and the run took, or says several "
                    "numbers",
                    common_->name())
              : fmt::format("by '{}' it took {} of the {} of the run", common_->name(), *steps,
                            counted(*iteration, "step"));
  }
  leave_out_states(why);
}

void TorchDistFolder::leave_out_states(const std::string& why) {
  progress_.reset();
  note_ = fmt::format(
      "the states of its optimizer are left out, so that training begins with new ones: {}", why);
}

// The optimizer's fp32 weight, which is more precise than the model's rounded one; the tensor
// itself if there is none.
const DcpTensor& TorchDistFolder::exact(const Found& found) const {
  for (const char* kind : {"fp32_param", "param"}) {
    const DcpTensor* kept = state(kind, *found.tensor);
    if (kept && kept->shape == found.tensor->shape) return *kept;
  }
  return *found.tensor;
}

// A model tensor that differs from the optimizer's rounded weight, or nullptr.
const DcpTensor* TorchDistFolder::find_other_weights(const ModelConfig& model) const {
  JoinedTensors rounded(where_, "run's arguments"), whole(where_, "run's arguments");
  for (const Found& found : found_) {
    if (is_copy(found, model) || &exact(found) == found.tensor) continue;
    for (JoinedTensor& one : joined(found, exact(found), -1)) whole.add(std::move(one));
    for (JoinedTensor& one : joined(found, *found.tensor, -1)) {
      const std::string name = one.name;
      rounded.add(std::move(one));
      if (!is_rounded_from(rounded, whole, name)) return found.tensor;
    }
  }
  return nullptr;
}

void TorchDistFolder::add_with_states(const ModelConfig& model) {
  const DcpTensor* other = find_other_weights(model);
  if (other) {
    leave_out_states(fmt::format(
        "its weights in fp32 of '{}', rounded, are not the model's weights", other->name));
  }
  for (const Found& found : found_) {
    if (is_copy(found, model)) continue;
    const auto add = [&](const DcpTensor& tensor, int moment) {
      for (JoinedTensor& one : joined(found, tensor, moment)) joined_->add(std::move(one));
    };
    add(other ? *found.tensor : exact(found), -1);
    const bool trained = has_moments(full_name(found.how, 0));
    for (int which = 0; progress_ && trained && which < adam_moments; ++which) {
      const char* kind = torch_moment_keys[static_cast<std::size_t>(which)];
      add(*state(kind, *found.tensor), which);  // find_states() verified that it exists
    }
  }
}

MegatronParameters TorchDistFolder::megatron_parameters(const ModelConfig& model) const {
  MegatronParameters out{
      .outside = {}, .layer = {}, .layers = layers_, .tied = model.tie_embeddings};
  for (const Found& found : found_) {
    if (is_copy(found, model)) continue;
    MegatronParameter one{found.how, found.tensor->shape};
    if (found.stacked) one.shape.erase(one.shape.begin());
    if (one.how.layer < 0 || one.how.is_module)
      out.outside.push_back(std::move(one));
    else if (one.how.layer == 0)
      out.layer.push_back(std::move(one));
  }
  return out;
}

// The folder has no names for the contents of buffers, so parameters are located by Megatron's
// packing rule. The result is verified by comparing all rounded fp32 weights with the model's.
bool TorchDistFolder::add_flat_states(const ModelConfig& model) {
  JoinedTensors rounded(where_, "run's arguments");
  std::vector<NamedCut> parameters;
  for (const Found& found : found_) {
    if (is_copy(found, model)) continue;
    for (JoinedTensor& one : joined(found, *found.tensor, -1)) {
      parameters.push_back({one.name, found.how.cut});
      rounded.add(std::move(one));
    }
  }
  for (const MegatronOrder order : {MegatronOrder::transformer_engine, MegatronOrder::local}) {
    auto ranks = flat_->placed(megatron_parameters(model), order);
    if (!ranks) continue;
    JoinedTensors exact(where_, "run's arguments");
    const bool is_right = std::ranges::all_of(parameters, [&](const NamedCut& one) {
      if (!ranks->front().weights->find(one.name)) return false;
      exact.add(join_flat(*ranks, one, -1, model));
      return is_rounded_from(rounded, exact, one.name);
    });
    if (!is_right) continue;
    for (const NamedCut& one : parameters)
      for (int moment = -1; moment < adam_moments; ++moment)
        joined_->add(join_flat(*ranks, one, moment, model));
    for (MegatronFlatRank& rank : *ranks) {
      joined_->keep(std::move(rank.weights));
      for (auto& moment : rank.moments) joined_->keep(std::move(moment));
    }
    return true;
  }
  leave_out_states(std::string("its weights in fp32 do not lie in the flat buffers where the "
                               "model's order of parameters has them") +
                   reshardable);
  return false;
}

}  // namespace trireme
