// One rank of model parallelism, whose tensors have Hugging Face's names.
#include "formats/deepspeed/huggingface.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/counted.h"
#include "base/error.h"
#include "formats/deepspeed/folder.h"
#include "formats/deepspeed/names.h"
#include "formats/huggingface/given_model.h"
#include "formats/joined_tensors.h"
#include "formats/zero_states.h"
#include "tensors/optimizer_states.h"

namespace trireme {
namespace {

using TorchFilePtr = std::shared_ptr<const TorchFile>;

constexpr const char* whole_model_file = "mp_rank_00_model_states.pt";
constexpr const char* cut_model_file = "zero_pp_rank_0_mp_rank_00_model_states.pt";

fs::path model_file_of(const fs::path& step) {
  return fs::exists(step / whole_model_file) ? step / whole_model_file : step / cut_model_file;
}

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
    read_model(config.empty() && !given_.kind ? ModelSettings{} : settings);
  }

  ForeignModel open() {
    collect();
    ForeignModel out;
    out.kind = huggingface_class(model_.kind);
    out.model = model_.model;
    out.tokens = given_.tokens;
    out.mapping = huggingface_mapping(model_, experts_);
    joined_->require_use_of_all(out.mapping);
    if (given_.is_run) out.config = given_.config;
    read_training(out);
    if (states_.weights) {
      joined_->keep(std::move(states_.weights));
      for (auto& moment : states_.moments)
        if (moment) joined_->keep(std::move(moment));
    }
    out.weights = std::move(joined_);
    give_tokenizer(out, given_, model_.kind);
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
    for (const auto& item : fs::directory_iterator(step_)) {
      const std::string name = item.path().filename().string();
      if (name.starts_with("expp_rank_") || name.find("_expert_") != name.npos)
        fail_input("'{}' holds experts ('{}'), which are not read", step_.string(), name);
      for (const char* pattern :
           {"mp_rank_#_model_states.pt", "zero_pp_rank_#_mp_rank_#_model_states.pt",
            "zero_pp_rank_#_mp_rank_#_optim_states.pt",
            "bf#_zero_pp_rank_#_mp_rank_#_optim_states.pt"}) {
        const std::vector<int> at = numbers_in(name, pattern);
        if (at.empty()) continue;
        if (at.back() > 0) {
          fail_input(
              "'{}' holds files of several ranks of model parallelism ('{}'), and only those of "
              "Megatron-DeepSpeed say how to join them",
              step_.string(), name);
        }
        if (name.ends_with("_optim_states.pt")) optimizer_[at[at.size() - 2]] = item.path();
      }
    }
    model_states_ = std::make_shared<const TorchFile>(model_file_of(step_));
  }

  // Of all ranks, or none.
  void open_states() {
    if (optimizer_.empty()) {
      const Pickle& pickle = model_states_->pickle();
      const auto own = pickle.find(pickle.root(), "optimizer");
      if (own && pickle.kind(*own) != PickleKind::none)
        note_ = "the states of its optimizer, which ran without ZeRO, are left out";
      return;
    }
    const auto told =
        model_states_->pickle().find_integer(model_states_->pickle().root(), "dp_world_size");
    const auto count = static_cast<int>(
        std::clamp<std::int64_t>(told.value_or(std::ssize(optimizer_)), 1, 1 << 20));
    std::vector<TorchFilePtr> files;
    for (int rank = 0; rank < count; ++rank) {
      const auto path = optimizer_.find(rank);
      if (path == optimizer_.end()) {
        fail_input(
            "'{}' lacks '[bf16_]zero_pp_rank_{}_mp_rank_00_optim_states.pt': the run had {} of "
            "data parallelism, and {} {} there",
            step_.string(), rank, counted(count, "rank"), counted(optimizer_.size(), "file"),
            optimizer_.size() == 1 ? "is" : "are");
      }
      files.push_back(std::make_shared<const TorchFile>(path->second));
    }
    states_ = open_zero_states(files, *model_states_);
    first_rank_ = files[0];
  }

  // The model as it was saved in its own type; of ZeRO's third stage it has no elements.
  void find_module() {
    const Pickle& pickle = model_states_->pickle();
    const auto module = pickle.find(pickle.root(), "module");
    if (module && pickle.kind(*module) == PickleKind::dict)
      module_ = &joined_->keep(torch_weights(model_states_, *module));
    if (!module_ && !states_.weights)
      fail_input("'{}' has no model ('module'), and '{}' no files of ZeRO's ranks",
                 model_states_->name(), step_.string());
    const WeightFile& names = states_.weights ? *states_.weights : *module_;
    for (const WeightEntry& entry : names.tensors())
      if (entry.name.ends_with(fused_experts_ending)) experts_ = ExpertStorage::fused;
  }

  void read_model(const ModelSettings& settings) {
    ModelConfig& m = given_.config.model;
    m = with_settings(m, settings, note_);
    validate(m);
    model_ = {given_.kind.value_or(huggingface_kind(m)), m, given_.tokens, ""};
  }

  // Without what wrappers put before the names.
  std::string canonical(const std::string& name) const {
    std::string_view rest = name;
    for (const std::string_view wrapper : {"module.", "_orig_mod."})
      while (rest.starts_with(wrapper)) rest.remove_prefix(wrapper.size());
    return canonical_huggingface_name(model_.kind, std::string(rest));
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
      if (is_huggingface_buffer(model_.kind, name)) continue;
      if (std::string original = tied_huggingface_tensor(model_, name); !original.empty()) {
        copies.emplace_back(&entry, std::move(original));
        continue;
      }
      const auto found = exact.find(name);
      if (found == exact.end()) {
        if (!exact.empty() && has_moments_at_huggingface(name)) {
          fail_input("'{}' holds the tensor '{}', and the files of ZeRO do not",
                     model_states_->name(), entry.name);
        }
        add(*saved, entry, name);
      } else {
        require_rounded(entry, *found->second.second);
        add(*found->second.first, *found->second.second, name);
      }
      added.insert(name);
    }
    for (const auto& [name, at] : exact) {
      if (added.contains(name) || !tied_huggingface_tensor(model_, name).empty()) continue;
      if (saved) {
        fail_input("'{}' holds the states of '{}', and '{}' does not hold that tensor",
                   states_.weights->name(), at.second->name, model_states_->name());
      }
      add(*at.first, *at.second, name);
    }
    for (const auto& [copy, original] : copies) require_copy_of(*copy, original);
    if (!states_.weights) return;
    add_note(note_, "the weights are those of the optimizer, in fp32");
  }

  static bool has_moments_at_huggingface(const std::string& name) {
    return !name.ends_with(".e_score_correction_bias");
  }

  void require_rounded(const WeightEntry& saved, const WeightEntry& exact) const {
    if (is_rounded_from(*module_, saved, *states_.weights, exact)) return;
    fail_input(
        "'{}' {} {} of '{}' should be what '{}' holds of it in fp32, rounded, and is not: the "
        "files "
        "are of different steps of a run, or of different runs",
        saved.name, saved.type, shape_text(saved.shape), model_states_->name(),
        states_.weights->name());
  }

  void require_copy_of(const WeightEntry& copy, const std::string& original) const {
    for (const WeightEntry& entry : module_->tensors()) {
      if (canonical(entry.name) != original) continue;
      if (same_weights(*module_, copy, *module_, entry)) return;
      fail_input("'{}': '{}' should be the same as '{}', as tie_word_embeddings has it, and is not",
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
        if (tied_huggingface_tensor(model_, name).empty())
          add(moments, entry, moment_name(name, which));
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
               "how many samples it had seen is not known, so that data and the schedule of the "
               "learning rate begin again");
    }
    read_settings(training.optimizer);
  }

  // Of the groups of Adam, of which those without weight decay hold biases and norms.
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
  std::map<int, fs::path> optimizer_;  // by data rank
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
  const fs::path path = model_file_of(deepspeed_step_folder(folder));
  if (!fs::exists(path)) return false;
  const TorchFile file(path);
  return !file.pickle().find(file.pickle().root(), "args");
}

ForeignModel open_deepspeed_of_others(const fs::path& folder, const ModelSettings& settings,
                                      const fs::path& config) {
  return DeepspeedModel(folder, settings, config).open();
}

}  // namespace trireme
