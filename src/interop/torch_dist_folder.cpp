// Finds the tensors of the model and of its optimizer among those of the folder.
#include "interop/torch_dist_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "interop/megatron_folder.h"
#include "interop/optimizer_states.h"
#include "interop/zero_states.h"

namespace trireme {
namespace {

constexpr const char* backend_file = "metadata.json";
constexpr const char* backend_key = "sharded_backend";
constexpr const char* common_file = "common.pt";
constexpr const char* common_value = "common_state/shard_0_1";  // of newer versions
constexpr const char* states_key = "optimizer.state.";
constexpr std::array<const char*, adam_moments> moment_kinds{"exp_avg", "exp_avg_sq"};
constexpr std::string_view layers_key = ".layers.";
constexpr const char* reshardable =
    "; the run saves them in a form that is always read with --dist-ckpt-optim-fully-reshardable";

// Keys of what runs keep beside the model, at the beginning of names.
constexpr std::array<std::string_view, 5> other_keys{
    "optimizer.", "chained_", "rng_state", "rerun_state_machine_state", "opt_param_scheduler"};

// Where the number of a layer would stand in the name of a tensor that stacks all layers.
std::optional<std::size_t> stacked_at(std::string_view name) {
  const std::size_t key = name.find(layers_key);
  if (key == std::string_view::npos) return std::nullopt;
  const std::size_t at = key + layers_key.size();
  if (at < name.size() && std::isdigit(static_cast<unsigned char>(name[at]))) return std::nullopt;
  return at;
}

bool is_stacked(const DcpTensor& tensor) {
  return stacked_at(tensor.name).has_value();
}

MegatronName name_of(const DcpTensor& tensor) {
  std::string name = tensor.name;
  if (const auto at = stacked_at(name)) name.insert(*at, "0.");
  return megatron_name(name);
}

constexpr std::uint64_t most_backend_bytes = std::uint64_t{1} << 20;

// Whether a file says what wrote the folder that it lies in; other programs have files of its name.
bool names_backend(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return false;
  const auto bytes = fs::file_size(file, error);
  if (error || bytes > most_backend_bytes) return false;
  const auto json = nlohmann::json::parse(read_file(file, most_backend_bytes), nullptr, false);
  return json.is_object() && json.contains(backend_key);
}

void check_backend(const fs::path& file) {
  const nlohmann::json json = parse_json(read_file(file, most_backend_bytes), file.string());
  const nlohmann::json backend =
      json.is_object() ? json.value(backend_key, nlohmann::json()) : nlohmann::json();
  if (backend == "torch_dist") return;
  fail_input("'{}': sharded_backend is {}, and only \"torch_dist\" is read", file.string(),
             backend.dump());
}

// Values of newer versions are lists of one.
PickleId only_child(const Pickle& pickle, PickleId id) {
  const bool is_list = pickle.kind(id) == PickleKind::list;
  return is_list && pickle.children(id).size() == 1 ? pickle.children(id)[0] : id;
}

// The numbers of steps that are told beside the states: of PyTorch's own optimizer, or, with a loss
// scaler beside it, of another "optimizer" within.
void add_steps(const TorchFile& file, PickleId optimizer, std::vector<double>& told) {
  const Pickle& pickle = file.pickle();
  optimizer = pickle.find(optimizer, "optimizer").value_or(optimizer);
  const auto look_in = [&](PickleId at, const char* key) {
    if (const auto step = pickle.find(at, key)) told.push_back(optimizer_step(file, *step));
  };
  if (const auto state = pickle.find(optimizer, "state")) look_in(*state, "common_step");
  const auto groups = pickle.find(optimizer, "param_groups");
  if (groups && pickle.kind(*groups) == PickleKind::list)
    for (const PickleId group : pickle.children(*groups)) look_in(group, "step");
}

}  // namespace

bool is_torch_dist_folder(const fs::path& folder) {
  const auto step = find_megatron_step(folder);
  return step && names_backend(*step / backend_file);
}

TorchDistFolder::TorchDistFolder(const fs::path& folder)
    : MegatronCheckpoint(megatron_step_folder(folder).string()) {
  check_backend(fs::path(where_) / backend_file);
  dcp_ = std::make_shared<const DcpFolder>(where_);
  read_arguments();
  find_tensors();
  check_layers(layers_);
  joined_ = std::make_unique<JoinedTensors>(where_, "run's arguments");
  weights_ = static_cast<const DcpWeights*>(
      &joined_->keep(std::make_unique<DcpWeights>(dcp_, is_stacked)));
  find_states();
}

void TorchDistFolder::read_arguments() {
  const fs::path file = fs::path(where_) / common_file;
  if (fs::exists(file)) {
    common_ = std::make_shared<const TorchFile>(file);
    root_ = common_->pickle().root();
  } else {
    common_ = dcp_->open(common_value);
    if (!common_) {
      fail_input("'{}' has neither '{}' nor the value '{}', which say what model it is", where_,
                 common_file, common_value);
    }
    root_ = only_child(common_->pickle(), common_->pickle().root());
  }
  set_arguments(common_, root_);
  const double version = common_->pickle().find_number(root_, "checkpoint_version").value_or(3);
  if (version < 2) {
    fail_input("'{}' has checkpoint_version {}, and at least 2 was expected in this format",
               common_->name(), version);
  }
}

void TorchDistFolder::find_tensors() {
  for (const DcpTensor& tensor : dcp_->metadata().tensors) {
    const auto begins = [&](std::string_view key) { return tensor.name.starts_with(key); };
    if (std::ranges::any_of(other_keys, begins) || is_megatron_buffer(tensor.name)) continue;
    const Found found{&tensor, name_of(tensor), is_stacked(tensor)};
    if (found.how.ours.empty())
      refuse_megatron_tensor(where_, tensor.name, shape_text(tensor.shape));
    const bool has_layers = found.stacked && !tensor.shape.empty();
    layers_ = std::max(layers_, has_layers ? tensor.shape[0] : found.how.layer + 1);
    found_.push_back(found);
  }
}

const DcpTensor* TorchDistFolder::state(const std::string& kind, const DcpTensor& tensor) const {
  return dcp_->find(states_key + kind + "." + tensor.name);
}

// What is the same for all ranks lies in "optimizer"; flat buffers have it for each group of ranks.
// Nothing where it is not said, or where groups of parameters or of ranks differ in it.
std::optional<std::int64_t> TorchDistFolder::optimizer_steps() const {
  std::vector<double> told;
  const auto optimizer = common_->pickle().find(root_, "optimizer");
  if (optimizer) add_steps(*common_, *optimizer, told);
  for (const std::string& name : flat_ ? flat_->group_values() : std::vector<std::string>()) {
    const auto file = dcp_->open(name);
    if (!file) return std::nullopt;
    const std::size_t before = told.size();
    add_steps(*file, only_child(file->pickle(), file->pickle().root()), told);
    if (told.size() == before) return std::nullopt;
  }
  const bool agree = std::ranges::all_of(told, [&](double steps) { return steps == told[0]; });
  if (told.empty() || !agree) return std::nullopt;
  return whole_count(told[0]);
}

// Why the states of the optimizer cannot be taken over; "" where all of them can.
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
  for (const char* kind : moment_kinds) {
    const std::string key = fmt::format("{}{}.", states_key, kind);
    if (!any([&](const std::string& name) { return name.starts_with(key); }))
      return fmt::format("there are none called '{}*', so that it was not Adam", key);
    for (const Found& found : found_) {
      const DcpTensor* moment = state(kind, *found.tensor);
      if (!moment) return fmt::format("'{}' has no {}", found.tensor->name, kind);
      if (moment->shape == found.tensor->shape) continue;
      return fmt::format("'{}' has the shape {}, and its tensor {}", moment->name,
                         shape_text(moment->shape), shape_text(found.tensor->shape));
    }
  }
  return "";
}

// All states or none.
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

bool TorchDistFolder::is_bert() const {
  return std::ranges::any_of(
      found_, [](const Found& found) { return found.how.ours.starts_with("masked_head."); });
}

const DcpTensor& TorchDistFolder::words() const {
  for (const Found& found : found_)
    if (found.how.ours == "embedding.word.weight" && !found.tensor->shape.empty())
      return *found.tensor;
  fail_input("'{}' has no embedding of words", where_);
}

std::int64_t TorchDistFolder::vocabulary_rows() const {
  return words().shape[0];
}

// `moment` -1: the weight. Gates and heads lie in the order of one rank, whatever their number was.
std::vector<JoinedTensor> TorchDistFolder::joined(const Found& found, const DcpTensor& tensor,
                                                  int moment) const {
  const auto named = [&](std::int64_t layer) {
    MegatronName how = found.how;
    if (found.stacked) how.layer = layer;
    const std::string name = full_name(how);
    return moment < 0 ? name : moment_name(name, moment);
  };
  std::vector<JoinedTensor> tensors;
  if (found.stacked) {
    std::vector<std::string> names;
    for (std::int64_t layer = 0; layer < layers_; ++layer) names.push_back(named(layer));
    tensors = weights_->layers(tensor, names);
  } else {
    tensors.push_back(weights_->whole(tensor, named(0)));
  }
  for (JoinedTensor& one : tensors) one.padded = found.how.cut == MegatronCut::words;
  return tensors;
}

void TorchDistFolder::require_copy_of_words(const DcpTensor& head, const ModelConfig& model) const {
  const std::vector<std::int64_t> expected{vocabulary_rows(), model.hidden_size};
  for (const DcpTensor* tensor : {&words(), &head}) {
    if (tensor->shape == expected) continue;
    fail_input("'{}': '{}' has the shape {}, and {} was expected", where_, tensor->name,
               shape_text(tensor->shape), shape_text(expected));
  }
  JoinedTensors both(where_, "run's arguments");
  both.add(weights_->whole(words(), "words"));
  both.add(weights_->whole(head, "head"));
  if (same_elements(both, "words", both, "head")) return;
  fail_input(
      "'{}': '{}' should be the same as '{}', as the arguments have it (no "
      "untie_embeddings_and_output_weights), and is not",
      where_, head.name, words().name);
}

// The head of a model that has the embedding of words for one.
bool TorchDistFolder::is_copy(const Found& found, const ModelConfig& model) {
  return model.tie_embeddings && found.how.ours == "head.weight";
}

// The optimizer's own weights in fp32, which tell more than those that were rounded from them; the
// tensor itself where there are none.
const DcpTensor& TorchDistFolder::exact(const Found& found) const {
  for (const char* kind : {"fp32_param", "param"}) {
    const DcpTensor* kept = state(kind, *found.tensor);
    if (kept && kept->shape == found.tensor->shape) return *kept;
  }
  return *found.tensor;
}

// A tensor of the model whose weights of the optimizer are others, or nullptr.
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
    for (int which = 0; progress_ && which < adam_moments; ++which) {
      const char* kind = moment_kinds[static_cast<std::size_t>(which)];
      add(*state(kind, *found.tensor), which);  // find_states() saw that it is there
    }
  }
}

MegatronParameters TorchDistFolder::parameters(const ModelConfig& model) const {
  MegatronParameters out{
      .outside = {}, .layer = {}, .layers = layers_, .tied = model.tie_embeddings};
  for (const Found& found : found_) {
    if (is_copy(found, model)) continue;
    MegatronParameter one{found.how, found.tensor->shape};
    if (found.stacked) one.shape.erase(one.shape.begin());
    if (one.how.layer < 0)
      out.outside.push_back(std::move(one));
    else if (one.how.layer == 0)
      out.layer.push_back(std::move(one));
  }
  return out;
}

// Nothing in the folder names what lies in the buffers, so that the place of each parameter is that
// which Megatron computes. It is the right one where all weights in fp32, rounded, are the model's.
bool TorchDistFolder::add_flat_states(const ModelConfig& model) {
  JoinedTensors rounded(where_, "run's arguments");
  std::vector<std::pair<std::string, MegatronCut>> names;
  for (const Found& found : found_) {
    if (is_copy(found, model)) continue;
    for (JoinedTensor& one : joined(found, *found.tensor, -1)) {
      names.emplace_back(one.name, found.how.cut);
      rounded.add(std::move(one));
    }
  }
  for (const MegatronOrder order : {MegatronOrder::transformer_engine, MegatronOrder::local}) {
    auto ranks = flat_->placed(parameters(model), order);
    const auto is_there = [&](const auto& name) { return (*ranks)[0].weights->find(name.first); };
    if (!ranks || !std::ranges::all_of(names, is_there)) continue;
    const auto tensor = [&](const auto& name, int moment) {
      RankParts parts;
      for (const MegatronFlatRank& rank : *ranks) {
        const WeightFile& file = rank.file(moment);
        // Megatron itself saves what all ranks have from the first of them.
        const bool is_repeated = name.second == MegatronCut::none && !parts.empty();
        if (!is_repeated) parts.push_back({&file, file.find(name.first)});
      }
      return join_megatron_parts(moment < 0 ? name.first : moment_name(name.first, moment),
                                 name.second, parts, model);
    };
    JoinedTensors exact(where_, "run's arguments");
    const bool is_right = std::ranges::all_of(names, [&](const auto& name) {
      exact.add(tensor(name, -1));
      return is_rounded_from(rounded, exact, name.first);
    });
    if (!is_right) continue;
    for (const auto& name : names)
      for (int moment = -1; moment < adam_moments; ++moment) joined_->add(tensor(name, moment));
    for (MegatronFlatRank& rank : *ranks) {
      joined_->keep(std::move(rank.weights));
      for (auto& moment : rank.moments) joined_->keep(std::move(moment));
    }
    return true;
  }
  return false;
}

std::unique_ptr<JoinedTensors> TorchDistFolder::join(const ModelConfig& model) {
  for (const Found& found : found_)
    if (is_copy(found, model)) require_copy_of_words(*found.tensor, model);
  if (flat_ && progress_) {
    if (add_flat_states(model)) return std::move(joined_);
    leave_out_states(std::string("its weights in fp32 do not lie in the flat buffers where the "
                                 "model's order of parameters has them") +
                     reshardable);
  }
  add_with_states(model);
  return std::move(joined_);
}

}  // namespace trireme
