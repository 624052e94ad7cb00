// Megatron's optimizer states have no parameter names. Parameters are sorted into a group with
// weight decay and one without, in the model's order within each, and numbered consecutively.
// DeepSpeed's fp16 optimizers without ZeRO use the same groups, and one of the two flattens each
// group into one parameter.
#include "formats/megatron/optimizer.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/counted.h"
#include "base/error.h"
#include "formats/megatron/distributed.h"
#include "formats/megatron/names.h"
#include "formats/zero_states.h"
#include "tensors/cast.h"

namespace trireme {
namespace {

constexpr const char* way_out =
    "to convert the weights alone, remove 'optimizer' from the files of all ranks";

struct Parameter {
  std::size_t chunk;
  const WeightFile* file;
  const WeightEntry* entry;

  // Megatron's rule (get_standard_config_overrides; formerly _get_params_for_weight_decay).
  bool decays() const { return entry->shape.size() != 1 && !entry->name.ends_with(".bias"); }
};

struct Group {
  std::vector<PickleId> ids;    // of its parameter numbers
  std::optional<double> decay;  // wd_mult
  std::size_t number = 0;       // in the file
};

class StatesReader {
 public:
  StatesReader(std::shared_ptr<const TorchFile> file, const std::vector<const WeightFile*>& chunks,
               const fs::path& distributed)
      : file_(std::move(file)),
        pickle_(file_->pickle()),
        chunks_(chunks),
        distributed_(distributed),
        pieces_(chunks.size()) {
    for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk)
      for (const WeightEntry& entry : chunks[chunk]->tensors())
        if (!is_megatron_buffer(entry.name)) parameters_.push_back({chunk, chunks[chunk], &entry});
  }

  MegatronRankStates read() {
    MegatronRankStates out;
    const auto saved = pickle_.find(pickle_.root(), "optimizer");
    if (!saved || pickle_.kind(*saved) == PickleKind::none) return out;
    out.left_out = find_parts(*saved);
    if (!out.left_out.empty()) return out;
    if (in_buffers_) {
      out = open_distributed_states(std::make_shared<const TorchFile>(distributed_), chunks_);
      if (out.left_out.empty()) out.steps = steps();
      return out;
    }
    for (const Group& group : groups_) assign(group);
    out.steps = steps();
    for (auto& [weights, moments] : pieces_) {
      MegatronChunkStates& chunk = out.chunks.emplace_back();
      chunk.weights = std::make_unique<PiecedWeights>(file_->name(), std::move(weights));
      for (std::size_t which = 0; which < torch_moment_keys.size(); ++which)
        chunk.moments[which] =
            std::make_unique<PiecedWeights>(file_->name(), std::move(moments[which]));
    }
    return out;
  }

 private:
  using Tensors = std::vector<PiecedWeights::Tensor>;

  // Returns why the states are not read; "" if all parts are present.
  std::string find_parts(PickleId saved) {
    if (pickle_.kind(saved) == PickleKind::list && pickle_.children(saved).size() == 1)
      saved = pickle_.children(saved)[0];
    if (pickle_.kind(saved) != PickleKind::dict) return "the run had several optimizers";
    // If the model is fp32, the optimizer has no separate weights, and Adam's states are at the top
    // level.
    auto adam = pickle_.find(saved, "optimizer");
    if (!adam) adam = pickle_.find(saved, "optimizer_state_dict");
    for (const char* key : {"fp32_from_fp16_params", "fp32_from_fp16", "fp32_groups"})
      if (!masters_) masters_ = pickle_.find(saved, key);
    if (const auto flat = pickle_.find(saved, "fp32_groups_flat"); flat && !masters_) {
      masters_ = flat;
      is_flat_ = true;
    }
    const auto state = pickle_.find(adam.value_or(saved), "state");
    const auto groups = pickle_.find(adam.value_or(saved), "param_groups");
    if (!state || (adam && !masters_)) return find_buffers(groups);
    if (!groups || pickle_.kind(*groups) != PickleKind::list) return "they have no param_groups";
    find_states(*state);
    if (states_.empty()) return "it had taken no step, or keeps none";
    const bool is_adam = pickle_.find(states_.begin()->second, torch_moment_keys[0]).has_value();
    if (!is_adam) return "it was not Adam, which keeps exp_avg and exp_avg_sq";
    return find_groups(*groups);
  }

  // The groups only provide the step count.
  std::string find_buffers(std::optional<PickleId> groups) {
    if (!fs::exists(distributed_)) {
      return fmt::format(
          "they lie in the buffers of the distributed optimizer, and '{}' is not there",
          distributed_.string());
    }
    if (groups && pickle_.kind(*groups) == PickleKind::list)
      for (const PickleId group : pickle_.children(*groups)) add_step(group, "step");
    if (told_.empty())
      return fmt::format("'{}' does not say how many steps the optimizer took", file_->name());
    in_buffers_ = true;
    return "";
  }

  // Reads states by parameter number. Other entries have names, such as common_step.
  void find_states(PickleId state) {
    const auto items = pickle_.children(state);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (pickle_.kind(items[i]) == PickleKind::integer)
        states_[pickle_[items[i]].integer] = items[i + 1];
    }
    add_step(state, "common_step");
  }

  std::string find_groups(PickleId list) {
    for (const PickleId id : pickle_.children(list)) {
      const auto params = pickle_.find(id, "params");
      if (!params) return "its groups do not list their parameters";
      const auto ids = pickle_.children(*params);
      Group group{{ids.begin(), ids.end()}, pickle_.find_number(id, "wd_mult"), group_count_++};
      if (group.ids.empty()) continue;
      // If each state has its own step count, the group's is ignored.
      if (!states_have_steps()) add_step(id, "step");
      groups_.push_back(std::move(group));
    }
    if (groups_.size() > 2)
      return fmt::format(
          "it has {} groups of parameters, and at most two were expected: those that decay and "
          "those that do not",
          groups_.size());
    if (groups_.size() < 2) return "";
    if (!groups_[0].decay || !groups_[1].decay)
      return "its groups do not say whether they decay (wd_mult)";
    if ((*groups_[0].decay == 0) == (*groups_[1].decay == 0))
      return "its groups differ in more than whether they decay (wd_mult)";
    return "";
  }

  bool states_have_steps() const {
    return std::ranges::any_of(
        states_, [&](const auto& one) { return pickle_.find(one.second, "step").has_value(); });
  }

  void add_step(PickleId at, const char* key) {
    if (const auto step = pickle_.find(at, key)) told_.push_back(optimizer_step(*file_, *step));
  }

  std::int64_t steps() const {
    if (told_.empty())
      fail_input("'{}' does not say how many steps its optimizer took; {}", file_->name(), way_out);
    const auto other = std::ranges::find_if(told_, [&](double step) { return step != told_[0]; });
    if (other != told_.end()) {
      fail_input(
          "'{}': its optimizer took {} with one parameter and {} with another, and one number was "
          "expected; {}",
          file_->name(), counted(told_[0], "step"), *other, way_out);
    }
    if (const auto steps = whole_count(told_[0])) return *steps;
    fail_input("'{}' says that its optimizer took {}", file_->name(), counted(told_[0], "step"));
  }

  // The parameters that the group should have, in the model's order.
  std::vector<Parameter> expected(const Group& group) const {
    const bool all = is_flat_ ? !group.decay : group.ids.size() == parameters_.size();
    if (groups_.size() == 1 && all) return parameters_;
    std::vector<Parameter> wanted;
    for (const Parameter& parameter : parameters_)
      if (parameter.decays() == (group.decay.value_or(1) != 0)) wanted.push_back(parameter);
    if (is_flat_) return wanted;  // verified by the flat length
    if (groups_.size() == 2 && wanted.size() == group.ids.size()) return wanted;
    // A single group may have all parameters: a rank can lack parameters of a kind.
    if (wanted.size() == group.ids.size() && wanted.size() == parameters_.size()) return wanted;
    fail_input(
        "'{}': the group {} of its optimizer (wd_mult {}) has {}, and the model has {}, {} of "
        "which {}; "
        "{}",
        file_->name(), group.number, group.decay ? fmt::format("{}", *group.decay) : "absent",
        counted(static_cast<std::int64_t>(group.ids.size()), "parameter"), parameters_.size(),
        wanted.size(), group.decay.value_or(1) != 0 ? "decay" : "do not decay", way_out);
  }

  // The fp32 weights of a group, except those that are fp32 in the model.
  std::span<const PickleId> masters(const Group& group, std::size_t wanted) const {
    if (!masters_) return {};
    const auto lists = pickle_.children(*masters_);
    if (lists.size() != group_count_) {
      fail_input("'{}' has weights in fp32 of {}, and its optimizer has {}; {}", file_->name(),
                 counted(lists.size(), "group"), group_count_, way_out);
    }
    const auto found = pickle_.children(lists[group.number]);
    if (found.size() == wanted) return found;
    fail_input("'{}' has {} in fp32 in the group {} of its optimizer, and {} were expected; {}",
               file_->name(), counted(found.size(), "weight"), group.number, wanted, way_out);
  }

  // A flat parameter that concatenates all of the group.
  void assign_flat(const Group& group) {
    const std::vector<Parameter> parameters = expected(group);
    const auto kept = pickle_.children(*masters_);
    if (parameters.empty() || group.ids.size() != 1 || kept.size() != group_count_) {
      fail_input(
          "'{}': of the {} of its optimizer {} have flat weights in fp32 (fp32_groups_flat), and "
          "the group {} holds {}, where one that stands for {} of the model was expected; {}",
          file_->name(), counted(group_count_, "group"), kept.size(), group.number,
          counted(group.ids.size(), "parameter"), counted(parameters.size(), "parameter"), way_out);
    }
    const PickleId state = state_of(group.ids[0], parameters[0]);
    add_step(state, "step");
    std::int64_t count = 0;
    for (const Parameter& parameter : parameters) count += parameter.entry->count();
    const PickleTensor& master = flat(kept[group.number], group, count, "the weights in fp32");
    std::array<const PickleTensor*, adam_moments> moments{};
    for (std::size_t which = 0; which < moments.size(); ++which) {
      const auto found = pickle_.find(state, torch_moment_keys[which]);
      if (!found) {
        fail_input("'{}' lacks '{}' of the group {} of its optimizer; {}", file_->name(),
                   torch_moment_keys[which], group.number, way_out);
      }
      moments[which] = &flat(*found, group, count, torch_moment_keys[which]);
    }
    std::int64_t at = 0;
    for (const Parameter& parameter : parameters) {
      auto& [weights, states] = pieces_[parameter.chunk];
      require_rounded(parameter, master, at);
      weights.push_back(pieced(parameter, master, at));
      for (std::size_t which = 0; which < moments.size(); ++which)
        states[which].push_back(pieced(parameter, *moments[which], at));
      at += parameter.entry->count();
    }
  }

  const PickleTensor& flat(PickleId id, const Group& group, std::int64_t count,
                           const char* what) const {
    const bool is_tensor = pickle_.kind(id) == PickleKind::tensor;
    if (is_tensor) {
      const PickleTensor& found = pickle_.tensor(id);
      if (found.type->ours == DType::f32 && found.shape.size() == 1 && found.count() == count)
        return found;
    }
    fail_input(
        "'{}': {} of the group {} of its optimizer is {}, and F32 [{}] was expected, by the shapes "
        "of the model's parameters; {}",
        file_->name(), what, group.number,
        is_tensor ? fmt::format("{} {}", pickle_.tensor(id).type->name,
                                shape_text(pickle_.tensor(id).shape))
                  : pickle_.shown(id),
        count, way_out);
  }

  void assign(const Group& group) {
    if (is_flat_) return assign_flat(group);
    const std::vector<Parameter> parameters = expected(group);
    const auto is_rounded = [](const Parameter& one) { return one.entry->dtype != DType::f32; };
    const auto rounded = static_cast<std::size_t>(std::ranges::count_if(parameters, is_rounded));
    if (rounded > 0 && !masters_) {
      fail_input(
          "'{}' has weights in {} and no weights in fp32 in its optimizer (fp32_from_fp16_params); "
          "{}",
          file_->name(), std::ranges::find_if(parameters, is_rounded)->entry->type, way_out);
    }
    const auto kept = masters(group, rounded);
    std::size_t next = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      auto& [weights, moments] = pieces_[parameters[i].chunk];
      if (is_rounded(parameters[i])) {
        const PickleTensor& master = tensor(kept[next++], parameters[i], "the weight in fp32");
        require_rounded(parameters[i], master);
        weights.push_back(pieced(parameters[i], master));
      }
      const PickleId state = state_of(group.ids[i], parameters[i]);
      for (std::size_t which = 0; which < torch_moment_keys.size(); ++which) {
        const auto found = pickle_.find(state, torch_moment_keys[which]);
        if (!found) {
          fail_input("'{}' lacks '{}' of the parameter '{}'; {}", file_->name(),
                     torch_moment_keys[which], parameters[i].entry->name, way_out);
        }
        moments[which].push_back(
            pieced(parameters[i], tensor(*found, parameters[i], torch_moment_keys[which])));
      }
      add_step(state, "step");
    }
  }

  PickleId state_of(PickleId number, const Parameter& parameter) const {
    const bool is_number = pickle_.kind(number) == PickleKind::integer;
    const auto found = is_number ? states_.find(pickle_[number].integer) : states_.end();
    if (found != states_.end()) return found->second;
    fail_input("'{}' has no state {} of its optimizer, which should be that of '{}'; {}",
               file_->name(), pickle_.shown(number), parameter.entry->name, way_out);
  }

  const PickleTensor& tensor(PickleId id, const Parameter& parameter, const char* what) const {
    const bool is_tensor = pickle_.kind(id) == PickleKind::tensor;
    if (is_tensor) {
      const PickleTensor& found = pickle_.tensor(id);
      if (found.type->ours == DType::f32 && found.shape == parameter.entry->shape) return found;
    }
    fail_input(
        "'{}': {} of '{}' is {}, and F32 {} was expected, as the model's order of parameters has "
        "it; {}",
        file_->name(), what, parameter.entry->name,
        is_tensor ? fmt::format("{} {}", pickle_.tensor(id).type->name,
                                shape_text(pickle_.tensor(id).shape))
                  : pickle_.shown(id),
        shape_text(parameter.entry->shape), way_out);
  }

  PiecedWeights::Tensor pieced(const Parameter& parameter, const PickleTensor& tensor,
                               std::int64_t first = 0) const {
    return {{parameter.entry->name, "F32", DType::f32, parameter.entry->shape},
            {{file_, &tensor, first, parameter.entry->count()}}};
  }

  // Rounded weights confirm that the order of parameters is correct.
  void require_rounded(const Parameter& parameter, const PickleTensor& master,
                       std::int64_t first = 0) const {
    const WeightEntry& entry = *parameter.entry;
    if (!entry.dtype || !can_cast(DType::f32, *entry.dtype)) {
      fail_input("'{}': tensor '{}' is {}, which is not read", file_->name(), entry.name,
                 entry.type);
    }
    const ElementSource weight{*entry.dtype, [&](auto begin, auto end, std::byte* dst) {
                                 parameter.file->read(entry, begin, end, dst);
                               }};
    const ElementSource exact{DType::f32, [&](auto begin, auto end, std::byte* dst) {
                                file_->read(master, first + begin, first + end, dst);
                              }};
    if (same_when_cast(weight, exact, entry.count())) return;
    fail_input(
        "'{}': the weight in fp32 that its optimizer should have of '{}', rounded to {}, is not "
        "that weight: the two are of different steps, or the parameters in another order than the "
        "model has them; {}",
        file_->name(), entry.name, entry.type, way_out);
  }

  std::shared_ptr<const TorchFile> file_;
  const Pickle& pickle_;
  const std::vector<const WeightFile*>& chunks_;
  const fs::path& distributed_;
  bool in_buffers_ = false;
  std::vector<Parameter> parameters_;
  std::optional<PickleId> masters_;
  bool is_flat_ = false;
  std::map<std::int64_t, PickleId> states_;
  std::vector<Group> groups_;  // groups with parameters
  std::size_t group_count_ = 0;
  std::vector<double> told_;                                                   // step counts found
  std::vector<std::pair<Tensors, std::array<Tensors, adam_moments>>> pieces_;  // by chunk
};

}  // namespace

MegatronRankStates open_megatron_states(std::shared_ptr<const TorchFile> file,
                                        const std::vector<const WeightFile*>& chunks,
                                        const fs::path& distributed) {
  return StatesReader(std::move(file), chunks, distributed).read();
}

}  // namespace trireme
