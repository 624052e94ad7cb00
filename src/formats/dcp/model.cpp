// Opens torch.distributed.checkpoint folders as models: the configuration is given separately,
// names and shapes come from the .metadata.
#include "formats/dcp/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/counted.h"
#include "base/error.h"
#include "base/printable.h"
#include "formats/dcp/optimizer.h"
#include "formats/dcp/weights.h"
#include "formats/huggingface/given_model.h"
#include "formats/huggingface/names.h"
#include "formats/llama/names.h"
#include "tensors/optimizer_states.h"

namespace trireme {
namespace {

constexpr const char* titan_words = "tok_embeddings.weight";

// Name prefixes of state that training programs store besides the model.
constexpr std::array<std::string_view, 12> other_keys{
    "optimizer.",  "optim.",       "optimizers.", "lr_scheduler.", "scheduler.", "train_state.",
    "dataloader.", "data_loader.", "rng",         "scaler.",       "step",       "extra_state."};

bool is_of_the_run(std::string_view name) {
  return std::ranges::any_of(other_keys, [&](auto key) { return name.starts_with(key); });
}

bool ends_with_name(std::string_view name, std::string_view ending) {
  return name.ends_with(ending) &&
         (name.size() == ending.size() || name[name.size() - ending.size() - 1] == '.');
}

// The model's tensors under their Hugging Face names.
class DcpModel {
 public:
  // `states`: the optimizer's folder if it is separate.
  DcpModel(const fs::path& path, const fs::path& states, const fs::path& config,
           const ModelSettings& settings)
      : folder_(std::make_shared<const DcpFolder>(path)),
        states_(states.empty() ? folder_ : std::make_shared<const DcpFolder>(states)) {
    refuse_megatron(path);
    refuse_states_alone(path);
    for (const DcpTensor& tensor : folder_->metadata().tensors)
      if (tensor.name.ends_with(fused_experts_ending)) experts_ = ExpertStorage::fused;
    titan_ = find_prefix(titan_words);
    given_ = read_given_model(
        path, config, settings,
        titan_ ? "a TOML file of Trireme with the section [model] (torchtitan's dim is "
                 "hidden_size, n_layers num_layers, n_heads num_heads, n_kv_heads num_kv_heads, "
                 "rope.theta rope_base)"
               : "");
    read_model();
    joined_ = std::make_unique<JoinedTensors>(folder_->where(), given_.name);
    weights_ =
        static_cast<const DcpWeights*>(&joined_->keep(std::make_unique<DcpWeights>(folder_)));
    moments_ =
        states_ == folder_
            ? weights_
            : static_cast<const DcpWeights*>(&joined_->keep(std::make_unique<DcpWeights>(states_)));
    collect();
  }

  ForeignModel open() {
    ForeignModel out = describe_model(given_, model_, experts_, *joined_);
    if (titan_) out.kind = fmt::format("torchtitan {}", torchtitan_model(kind_, model_.model));
    read_training(out);
    out.weights = std::move(joined_);
    out.note = note_;
    return out;
  }

 private:
  void refuse_megatron(const fs::path& path) const {
    if (!fs::exists(path / "metadata.json")) return;
    fail_input(
        "'{}' is of Megatron-Core's distributed format ('metadata.json'): leave --from out, or "
        "give "
        "--from torch_dist",
        path.string());
  }

  // Accelerate and others store optimizer states in a separate folder next to the weights.
  void refuse_states_alone(const fs::path& path) const {
    const auto& tensors = folder_->metadata().tensors;
    if (tensors.empty() || !std::ranges::all_of(tensors, [](const DcpTensor& tensor) {
          return is_of_the_run(tensor.name);
        }))
      return;
    const fs::path whole = fs::absolute(path / ".").lexically_normal().parent_path().parent_path();
    const SplitDcpFolder split = find_split_dcp_folder(whole);
    fail_input("'{}' holds the states of an optimizer and no weights ('{}'){}", path.string(),
               printable(tensors[0].name),
               split.model.empty() ? ": give the folder of the weights"
                                   : fmt::format(": '{}' has both, in '{}' and here",
                                                 whole.string(), split.model.filename().string()));
  }

  // Finds the key prefix of the model; false if no tensor has that name. A second model, such as
  // averaged weights, would be as good a choice.
  bool find_prefix(std::string_view first) {
    for (const DcpTensor& tensor : folder_->metadata().tensors) {
      if (!ends_with_name(tensor.name, first) || is_of_the_run(tensor.name)) continue;
      if (words_) {
        fail_input(
            "'{}' contains several models, such as those of '{}' and '{}': save a folder with only "
            "the one to be read",
            folder_->where(), printable(words_->name), printable(tensor.name));
      }
      words_ = &tensor;
    }
    if (!words_) return false;
    prefix_ = words_->name.substr(0, words_->name.size() - first.size());
    return true;
  }

  void read_model() {
    ModelConfig& m = given_.config.model;
    if (titan_ && m.vocab_size == 0 && words_->shape.size() == 2) m.vocab_size = words_->shape[0];
    model_ = apply_settings(given_, note_);
    if (titan_) {
      kind_ = huggingface_kind(m);
      if (torchtitan_model(kind_, model_.model)) return;
      fail_input(
          "'{}' has torchtitan's names ('{}'), and by {} the model is a {}, which is not "
          "read from such a folder: expected is a Llama or Qwen3 without experts or windows",
          folder_->where(), words_->name, given_.name, kind_->class_name);
    }
    const TensorMapping mapping = huggingface_mapping(model_, experts_);
    if (find_prefix(mapping.theirs[0].name)) {
      if (m.vocab_size == 0 && words_->shape.size() == 2)
        model_.model.vocab_size = words_->shape[0];
      if (!given_.is_run) add_note(note_, fit_to_names(model_, own_names()));
      return;
    }
    fail_input(
        "'{}' has neither '{}', as a {} has at Hugging Face, nor '{}', as a Llama has at "
        "torchtitan{}",
        folder_->where(), mapping.theirs[0].name, model_.kind->class_name, titan_words,
        first_names());
  }

  std::vector<std::string> own_names() const {
    std::vector<std::string> names;
    for (const DcpTensor& tensor : folder_->metadata().tensors)
      if (tensor.name.starts_with(prefix_)) names.push_back(tensor.name.substr(prefix_.size()));
    return names;
  }

  std::string first_names() const {
    std::vector<std::string> names;
    for (const DcpTensor& tensor : folder_->metadata().tensors) {
      if (names.size() < 3) names.push_back("'" + tensor.name + "'");
    }
    return names.empty() ? "; it holds no tensors"
                         : fmt::format("; it holds {} and others", fmt::join(names, ", "));
  }

  void collect() {
    std::int64_t left_out = 0;
    std::string first_left_out;
    std::vector<std::pair<const DcpTensor*, std::string>> copies;
    for (const DcpTensor& tensor : folder_->metadata().tensors) {
      if (!tensor.name.starts_with(prefix_) || (prefix_.empty() && is_of_the_run(tensor.name))) {
        if (is_of_the_run(tensor.name)) continue;
        if (left_out++ == 0) first_left_out = tensor.name;
        continue;
      }
      const std::string own = tensor.name.substr(prefix_.size());
      const std::string name = titan_ ? huggingface_name_of_llama(own) : own;
      if (is_left_out_of_huggingface(model_, name) || own.ends_with("freqs_cis")) continue;
      const std::string original = tied_huggingface_tensor(model_, name);
      if (!original.empty()) {
        copies.emplace_back(&tensor, original);
        continue;
      }
      joined_->add(join(*weights_, tensor, name, name));
      own_names_[name] = own;
    }
    for (const auto& [copy, original] : copies) require_copy_of(*copy, original);
    if (left_out == 0) return;
    add_note(note_, fmt::format("{} outside of '{}' are left out, the first of which is '{}'",
                                counted(left_out, "tensor"), prefix_, first_left_out));
  }

  JoinedTensor join(const DcpWeights& from, const DcpTensor& tensor, const std::string& huggingface,
                    const std::string& name) const {
    JoinedTensor joined = from.whole(tensor, name);
    if (titan_) joined.order = torchtitan_row_order(huggingface, model_.model);
    return joined;
  }

  void require_copy_of(const DcpTensor& copy, const std::string& original) {
    JoinedTensors copies(folder_->where(), given_.name);
    copies.add(weights_->whole(copy, copy.name));
    const JoinedTensor* first = joined_->find(original);
    if (first && same_elements(*joined_, original, copies, copy.name)) return;
    fail_input(
        "'{}': '{}' should be the same as {}, as model.tie_embeddings = true has it, and is not",
        folder_->where(), copy.name, first ? "the embedding" : fmt::format("'{}'", original));
  }

  void read_training(ForeignModel& out) {
    std::vector<std::string> names, own;
    for (std::size_t i = 0; i < out.mapping.theirs.size(); ++i) {
      const NamedTensor& tensor = out.mapping.theirs[i];
      joined_->check(tensor.name, tensor.shape);
      if (!is_trained(out.mapping, i)) continue;
      names.push_back(tensor.name);
      own.push_back(own_names_.at(tensor.name));
    }
    const DcpOptimizer optimizer(*states_, own);
    add_note(note_, optimizer.why());
    if (!optimizer.is_there()) return;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string& owner = optimizer.owner(own[i]);
      for (int which = 0; which < adam_moments; ++which) {
        JoinedTensor moment =
            join(*moments_, optimizer.moment(owner, which), names[i], moment_name(names[i], which));
        if (owner != own[i]) choose_rows(moment, own[i]);
        joined_->add(std::move(moment));
      }
    }
    add_moments(out.mapping, moment_name);
    out.training.emplace();
    out.training->optimizer_steps = optimizer.steps();
    read_progress(*out.training);
    read_settings(optimizer, out);
  }

  // Selects the rows of queries, keys or values within a fused QKV tensor.
  void choose_rows(JoinedTensor& tensor, const std::string& own) const {
    const ModelConfig& m = model_.model;
    tensor.choice = torchtitan_fused_rows(own, m);
    const std::int64_t rows = tensor.choice.group * m.num_kv_heads;
    if (tensor.shape.empty() || tensor.shape[0] != rows) {
      fail_input(
          "'{}': '{}' has the shape {}, and {} were expected: those of {} and their "
          "keys and values",
          folder_->where(), tensor.parts[0].entry->name, shape_text(tensor.shape),
          counted(rows, "row"), counted(m.num_heads, "head"));
    }
    tensor.shape[0] = tensor.choice.count * m.num_kv_heads;
  }

  // Reads the run's step, which may include skipped optimizer steps, and its consumed data.
  void read_progress(ForeignTraining& training) {
    training.step = training.optimizer_steps;
    for (const char* name : {"train_state.step", "step", "iteration", "global_step"}) {
      const auto step = folder_->number(name);
      if (!step || *step < 0 || *step > 1e15) continue;
      training.step = static_cast<std::int64_t>(*step);
      break;
    }
    const std::int64_t length = model_.model.seq_length;
    const auto seen = folder_->number("train_state.ntokens_seen");
    const std::int64_t batch = given_.config.train.global_batch_size;
    if (seen && *seen >= 0 && *seen < 1e18 && length > 0) {
      training.tokens = static_cast<std::int64_t>(*seen);
      training.samples = training.tokens / length;
    } else if (given_.is_run && batch > 0) {
      training.samples = training.step * batch;
      training.tokens = training.samples * length;
    } else {
      add_note(
          note_,
          "how many samples it had seen is not known, so that data and the schedule of the "
          "learning rate start over (--config FILE.toml with train.global_batch_size says it)");
    }
  }

  // Settings of a given run configuration take precedence.
  void read_settings(const DcpOptimizer& optimizer, ForeignModel& out) {
    Config found = given_.config;
    add_note(note_, optimizer.read_settings(found.optimizer));
    out.training->optimizer = found.optimizer;
    out.training->optimizer.decay_style = DecayStyle::constant;
    if (!given_.is_run) return;
    const std::vector<std::string> differences =
        changes(found, given_.config,
                {"optimizer.lr", "optimizer.beta1", "optimizer.beta2", "optimizer.eps",
                 "optimizer.weight_decay", "optimizer.decay_vectors"});
    if (differences.empty()) return;
    add_note(note_, fmt::format("{} says otherwise than the states of the optimizer: {}",
                                given_.name, fmt::join(differences, ", ")));
  }

  std::shared_ptr<const DcpFolder> folder_, states_;
  ExpertStorage experts_ = ExpertStorage::apart;
  bool titan_ = false;
  const HuggingFaceKind* kind_ = nullptr;  // with torchtitan's names
  std::string prefix_;                     // of the model's tensors
  const DcpTensor* words_ = nullptr;
  GivenModel given_;
  HuggingFaceModel model_;
  std::unique_ptr<JoinedTensors> joined_;
  const DcpWeights *weights_ = nullptr, *moments_ = nullptr;
  std::map<std::string, std::string> own_names_;  // names without prefix, by Hugging Face name
  std::string note_;
};

}  // namespace

SplitDcpFolder find_split_dcp_folder(const fs::path& folder) {
  constexpr std::string_view model = "pytorch_model_fsdp_", optimizer = "optimizer_";
  SplitDcpFolder found;
  std::vector<std::string> states;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    const std::string name = item.path().filename().string();
    if (!is_dcp_folder(item.path())) continue;
    if (name.starts_with(optimizer)) states.push_back(name);
    if (!name.starts_with(model)) continue;
    if (!found.model.empty()) {
      fail_input("'{}' holds several models, such as '{}' and '{}': give the folder of one of them",
                 folder.string(), found.model.filename().string(), name);
    }
    found.model = item.path();
  }
  if (found.model.empty()) return found;
  const std::string name = found.model.filename().string();
  const std::string expected = std::string(optimizer) + name.substr(model.size());
  for (const std::string& other : states) {
    if (other == expected) continue;
    fail_input(
        "'{}' has states of an optimizer in '{}', and those of the model in '{}' are expected in "
        "'{}': give '{}' for the weights alone, or take '{}' away",
        folder.string(), other, name, expected, found.model.string(), other);
  }
  if (!states.empty()) found.optimizer = folder / expected;
  return found;
}

ForeignModel open_dcp_folder(const fs::path& folder, const ModelSettings& settings,
                             const fs::path& config) {
  if (is_dcp_folder(folder)) return DcpModel(folder, {}, config, settings).open();
  const SplitDcpFolder split = find_split_dcp_folder(folder);
  // The folder may have its own config.json.
  const fs::path own = folder / "config.json";
  const fs::path given = config.empty() && fs::exists(own) ? own : config;
  return DcpModel(split.model.empty() ? folder : split.model, split.optimizer, given, settings)
      .open();
}

}  // namespace trireme
