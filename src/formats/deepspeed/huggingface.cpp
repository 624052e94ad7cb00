// Opens checkpoints of one model-parallel rank whose tensors have Hugging Face names.
#include "formats/deepspeed/huggingface.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "formats/deepspeed/step.h"
#include "formats/huggingface/given_model.h"
#include "formats/joined_tensors.h"
#include "formats/zero_states.h"
#include "tensors/optimizer_states.h"

namespace trireme {
namespace {

using TorchFilePtr = std::shared_ptr<const TorchFile>;

class DeepspeedModel {
 public:
  DeepspeedModel(const fs::path& folder, const ModelSettings& settings, const fs::path& config)
      : step_(deepspeed_step_folder(folder)) {
    find_files();
    const fs::path next_to = fs::absolute(step_).lexically_normal().parent_path();
    const bool is_in_step = fs::exists(step_ / "config.json");
    given_ = read_given_model(is_in_step ? step_ : next_to, config, settings, hint());
    joined_ = std::make_unique<JoinedTensors>(step_.string(), given_.name);
    open_states();
    find_module();
    model_ = apply_settings(given_, note_);
    if (!given_.is_run) add_note(note_, fit_to_names(model_, names()));
  }

  ForeignModel open() {
    collect();
    ForeignModel out = describe_model(given_, model_, experts_, *joined_);
    read_training(out);
    if (states_.weights) keep_states(*joined_, states_);
    out.weights = std::move(joined_);
    out.note = note_;
    return out;
  }

 private:
  std::string hint() const {
    return "the config.json of Hugging Face that belongs to the model, since only checkpoints of "
           "Megatron-DeepSpeed say what model they hold (tensors with Hugging Face's names are "
           "read, as its Trainer and accelerate save them; others have to be exported to a Hugging "
           "Face folder by the program that wrote them)";
  }

  void find_files() {
    const DeepspeedFiles files = list_deepspeed_files(step_);
    const auto refuse_others = [&](const auto& by_model_rank) {
      if (by_model_rank.empty() || by_model_rank.rbegin()->first == 0) return;
      fail_input(
          "'{}' contains files of {} model-parallel ranks, which can be joined only if written by "
          "Megatron-DeepSpeed",
          step_.string(), by_model_rank.rbegin()->first + 1);
    };
    refuse_others(files.models);
    refuse_others(files.optimizer);
    if (const auto zero = files.optimizer.find(0); zero != files.optimizer.end())
      optimizer_ = zero->second;
    if (!files.models.contains(0))
      fail_input("'{}' lacks 'mp_rank_00_model_states.pt'", step_.string());
    model_states_ = std::make_shared<const TorchFile>(files.models.at(0));
  }

  // Opens the states of all ranks or of none.
  void open_states() {
    if (optimizer_.empty()) {
      const Pickle& pickle = model_states_->pickle();
      const auto own = pickle.find(pickle.root(), "optimizer");
      if (own && pickle.kind(*own) != PickleKind::none)
        note_ = "its optimizer states, saved without ZeRO, are not imported";
      return;
    }
    const auto files = open_zero_files(step_, 0, optimizer_, *model_states_);
    states_ = open_zero_states(files, *model_states_);
    first_rank_ = files[0];
  }

  // Finds the model saved in its own type; with ZeRO stage 3 its tensors are empty.
  void find_module() {
    const Pickle& pickle = model_states_->pickle();
    const auto module = pickle.find(pickle.root(), "module");
    if (module && pickle.kind(*module) == PickleKind::dict)
      module_ = &joined_->keep(torch_weights(model_states_, *module));
    if (!module_ && !states_.weights)
      fail_input("'{}' has no model ('module'), and '{}' has no files of ZeRO ranks",
                 model_states_->name(), step_.string());
    for (const WeightEntry& entry : stored().tensors())
      if (entry.name.ends_with(fused_experts_ending)) experts_ = ExpertStorage::fused;
  }

  const WeightFile& stored() const { return states_.weights ? *states_.weights : *module_; }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const WeightEntry& entry : stored().tensors()) names.push_back(canonical(entry.name));
    return names;
  }

  // Removes name prefixes added by wrapper modules.
  std::string canonical(const std::string& name) const {
    std::string_view rest = name;
    for (const std::string_view wrapper : {"module.", "_orig_mod."})
      while (rest.starts_with(wrapper)) rest.remove_prefix(wrapper.size());
    return canonical_huggingface_name(*model_.kind, std::string(rest));
  }

  void add(const WeightFile& file, const WeightEntry& entry, const std::string& name) {
    joined_->add({name, entry.shape, {{&file, &entry}}});
  }

  void collect() {
    std::map<std::string, std::pair<const WeightFile*, const WeightEntry*>> exact;
    if (states_.weights) {
      for (const WeightEntry& entry : states_.weights->tensors())
        exact[canonical(entry.name)] = {states_.weights.get(), &entry};
    }
    std::vector<std::pair<const WeightEntry*, std::string>> copies;
    std::set<std::string> added;
    const bool cut_up = states_.weights && states_.stage == 3;
    const WeightFile* const saved = cut_up ? nullptr : module_;
    for (std::size_t i = 0; saved && i < saved->tensors().size(); ++i) {
      const WeightEntry& entry = saved->tensors()[i];
      const std::string name = canonical(entry.name);
      if (is_left_out_of_huggingface(model_, name)) continue;
      if (std::string original = tied_huggingface_tensor(model_, name); !original.empty()) {
        copies.emplace_back(&entry, std::move(original));
        continue;
      }
      const auto found = exact.find(name);
      if (found == exact.end()) {
        if (!exact.empty() && has_moments_at_huggingface(name)) {
          fail_input("'{}' contains the tensor '{}', but the ZeRO files do not",
                     model_states_->name(), entry.name);
        }
        add(*saved, entry, name);
      } else {
        require_rounded_from({saved, &entry}, {found->second.first, found->second.second});
        add(*found->second.first, *found->second.second, name);
      }
      added.insert(name);
    }
    for (const auto& [name, at] : exact) {
      if (added.contains(name) || is_not_wanted(name)) continue;
      if (saved) {
        fail_input("'{}' contains the states of '{}', but '{}' does not contain that tensor",
                   states_.weights->name(), at.second->name, model_states_->name());
      }
      add(*at.first, *at.second, name);
    }
    for (const auto& [copy, original] : copies) require_copy_of(*copy, original);
    if (!states_.weights) return;
    add_note(note_, "the weights are the fp32 master weights of the optimizer");
  }

  bool is_not_wanted(const std::string& name) const {
    return is_left_out_of_huggingface(model_, name) ||
           !tied_huggingface_tensor(model_, name).empty();
  }

  static bool has_moments_at_huggingface(const std::string& name) {
    return !name.ends_with(".e_score_correction_bias");
  }

  void require_copy_of(const WeightEntry& copy, const std::string& original) const {
    for (const WeightEntry& entry : module_->tensors()) {
      if (canonical(entry.name) != original) continue;
      if (same_weights(*module_, copy, *module_, entry)) return;
      fail_input("'{}': '{}' should be equal to '{}' according to tie_word_embeddings, but differs",
                 model_states_->name(), copy.name, entry.name);
    }
    fail_input("'{}' holds '{}', and lacks '{}', of which it is a copy", model_states_->name(),
               copy.name, original);
  }

  void read_training(ForeignModel& out) {
    if (states_.steps == 0) return;
    for (int which = 0; which < adam_moments; ++which) {
      const WeightFile& moments = *states_.moments[static_cast<std::size_t>(which)];
      for (const WeightEntry& entry : moments.tensors()) {
        const std::string name = canonical(entry.name);
        if (!is_not_wanted(name)) add(moments, entry, moment_name(name, which));
      }
    }
    add_moments(out.mapping, moment_name);
    out.training.emplace();
    ForeignTraining& training = *out.training;
    const Pickle& pickle = model_states_->pickle();
    const auto number = [&](const char* key) { return pickle.find_integer(pickle.root(), key); };
    training.optimizer_steps = states_.steps;
    training.step = std::max(states_.steps, number("global_steps").value_or(states_.steps));
    const std::int64_t length = model_.model.seq_length;
    const auto samples = number("global_samples");
    if (samples && *samples >= 0 && *samples < std::int64_t{1} << 40) {
      training.samples = *samples;
      training.tokens = *samples * length;
    } else {
      add_note(note_,
               "the number of consumed samples is not known, so data and the learning-rate "
               "schedule start from the beginning");
    }
    read_settings(training.optimizer);
  }

  // Reads Adam's groups; those without weight decay hold biases and norms.
  void read_settings(OptimizerConfig& optimizer) const {
    optimizer.decay_style = DecayStyle::constant;
    const Pickle& pickle = first_rank_->pickle();
    auto at = pickle.find(pickle.root(), "optimizer_state_dict");
    for (const char* key : {"base_optimizer_state", "optimizer_state_dict"}) {
      const auto inner = at ? pickle.find(*at, key) : std::nullopt;
      if (inner && pickle.kind(*inner) == PickleKind::dict) at = inner;
    }
    const auto groups = at ? pickle.find(*at, "param_groups") : std::nullopt;
    if (!groups) return;
    double decay = 0;
    bool all_decay = true;
    for (const PickleId group : pickle.children(*groups)) {
      const auto number = [&](const char* key) { return pickle.find_number(group, key); };
      if (const auto lr = number("initial_lr") ? number("initial_lr") : number("lr"))
        optimizer.lr = *lr;
      if (const auto eps = number("eps")) optimizer.eps = *eps;
      if (const auto betas = pickle.find(group, "betas")) read_betas(*betas, optimizer);
      const double here = number("weight_decay").value_or(0);
      decay = std::max(decay, here);
      all_decay &= here > 0;
    }
    optimizer.weight_decay = decay;
    optimizer.decay_vectors = all_decay && decay > 0;
  }

  void read_betas(PickleId id, OptimizerConfig& optimizer) const {
    const Pickle& pickle = first_rank_->pickle();
    const auto items = pickle.children(id);
    if (items.size() != 2) return;
    double* const to[] = {&optimizer.beta1, &optimizer.beta2};
    for (std::size_t i = 0; i < 2; ++i)
      if (pickle.kind(items[i]) == PickleKind::real) *to[i] = pickle[items[i]].real();
  }

  fs::path step_;
  DeepspeedFiles::ByRank optimizer_;  // by data-parallel rank
  TorchFilePtr model_states_, first_rank_;
  GivenModel given_;
  HuggingFaceModel model_;
  ExpertStorage experts_ = ExpertStorage::apart;
  ZeroStates states_;
  std::unique_ptr<JoinedTensors> joined_;
  const WeightFile* module_ = nullptr;
  std::string note_;
};

}  // namespace

bool is_deepspeed_of_others(const fs::path& folder) {
  const DeepspeedFiles files = list_deepspeed_files(deepspeed_step_folder(folder));
  const auto path = files.models.find(0);
  if (path == files.models.end()) return false;
  const TorchFile file(path->second);
  return !file.pickle().find(file.pickle().root(), "args");
}

ForeignModel open_deepspeed_of_others(const fs::path& folder, const ModelSettings& settings,
                                      const fs::path& config) {
  return DeepspeedModel(folder, settings, config).open();
}

}  // namespace trireme
