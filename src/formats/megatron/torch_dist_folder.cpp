// Finds the model's tensors among those of the folder.
#include "formats/megatron/torch_dist_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "formats/megatron/step.h"
#include "tensors/optimizer_states.h"

namespace trireme {
namespace {

constexpr const char* backend_file = "metadata.json";
constexpr const char* backend_key = "sharded_backend";
constexpr const char* common_file = "common.pt";
constexpr const char* common_value = "common_state/shard_0_1";  // in newer versions
constexpr std::string_view layers_key = ".layers.";
// Name prefixes of state stored besides the model.
constexpr std::array<std::string_view, 5> other_keys{
    "optimizer.", "chained_", "rng_state", "rerun_state_machine_state", "opt_param_scheduler"};

// Position of the missing layer number in the name of a tensor that stacks all layers.
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

// Biases of experts are one vector in ours.
bool is_vector(const DcpTensor& tensor) {
  const std::string_view name = tensor.name;
  return name.find(".mlp.experts.") != name.npos && name.ends_with(".bias");
}

MegatronName name_of(const DcpTensor& tensor) {
  std::string name = tensor.name;
  if (const auto at = stacked_at(name)) name.insert(*at, "0.");
  return megatron_name(name);
}

// Whether two names stand for the same elements of the same files.
bool is_second_name(const DcpTensor& one, const DcpTensor& other) {
  const auto same = [](const DcpChunk& a, const DcpChunk& b) {
    return a.item.file == b.item.file && a.item.begin == b.item.begin && a.offsets == b.offsets;
  };
  return std::ranges::equal(one.chunks, other.chunks, same);
}

constexpr std::uint64_t most_backend_bytes = std::uint64_t{1} << 20;

// Whether the file names the backend that wrote the folder; other programs use the same file name.
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
  fail_input(
      "'{}': sharded_backend is {}, and only \"torch_dist\" is read: load the checkpoint with the "
      "Megatron-LM that wrote it, and save it with --ckpt-format torch_dist",
      file.string(), backend.dump());
}

}  // namespace

bool is_torch_dist_folder(const fs::path& folder) {
  const auto step = find_megatron_step(folder);
  return step && names_backend(*step / backend_file);
}

TorchDistFolder::TorchDistFolder(const fs::path& folder, const Describe& describe)
    : MegatronCheckpoint(megatron_step_folder(folder).string()) {
  check_backend(fs::path(where_) / backend_file);
  dcp_ = std::make_shared<const DcpFolder>(where_);
  read_arguments(describe);
  find_tensors();
  check_layers(layers_);
  joined_ = std::make_unique<JoinedTensors>(where_, "run's arguments");
  weights_ = static_cast<const DcpWeights*>(
      &joined_->keep(std::make_unique<DcpWeights>(dcp_, DcpWeights::Views{is_stacked, is_vector})));
  find_states();
}

PickleId TorchDistFolder::only_child(const Pickle& pickle, PickleId id) {
  const bool is_list = pickle.kind(id) == PickleKind::list;
  return is_list && pickle.children(id).size() == 1 ? pickle.children(id)[0] : id;
}

void TorchDistFolder::read_arguments(const Describe& describe) {
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
  if (describe && !has_arguments()) this->describe(describe(where_));
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
    const auto is_same = [&](const Found& one) {
      return one.how.ours == found.how.ours && one.how.layer == found.how.layer &&
             one.how.is_module == found.how.is_module && is_second_name(*one.tensor, tensor);
    };
    if (std::ranges::any_of(found_, is_same)) continue;
    const bool has_layers = found.stacked && !tensor.shape.empty();
    if (!found.how.is_module)
      layers_ = std::max(layers_, has_layers ? tensor.shape[0] : found.how.layer + 1);
    found_.push_back(found);
  }
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

// `moment` -1: the weight. Gates and heads are in single-rank order for any tensor-parallel size.
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
  for (JoinedTensor& one : tensors) {
    one.padded = found.how.cut == MegatronCut::words;
    // Experts are concatenated: a matrix of all their rows.
    if (one.shape.size() == 3) one.shape = {one.shape[0] * one.shape[1], one.shape[2]};
  }
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

// Whether it is the output head of a model with tied embeddings.
bool TorchDistFolder::is_copy(const Found& found, const ModelConfig& model) {
  return model.tie_embeddings && found.how.ours == "head.weight";
}

std::unique_ptr<JoinedTensors> TorchDistFolder::join(const ModelConfig& model) {
  for (const Found& found : found_)
    if (is_copy(found, model)) require_copy_of_words(*found.tensor, model);
  if (!flat_ || !progress_ || !add_flat_states(model)) add_with_states(model);
  return std::move(joined_);
}

}  // namespace trireme
