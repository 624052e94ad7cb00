// Formats arguments as Python does, and joins tensor-parallel shards.
#include "formats/megatron/checkpoint.h"

#include <fmt/ranges.h>
#include <algorithm>

#include <charconv>

#include "base/counted.h"
#include "base/error.h"

namespace trireme {
namespace {

// Formats a value like Python's str().
std::optional<std::string> shown_argument(const Pickle& pickle, PickleId id) {
  const PickleKind kind = pickle.kind(id);
  if (kind == PickleKind::none) return std::nullopt;
  if (kind == PickleKind::text) return std::string(pickle[id].text);
  if (kind != PickleKind::tuple && kind != PickleKind::list) return pickle.shown(id);
  std::vector<std::string> items;
  for (const PickleId item : pickle.children(id))
    items.push_back(shown_argument(pickle, item).value_or("None"));
  return fmt::format("({})", fmt::join(items, ","));
}

}  // namespace

std::vector<MegatronArgument> megatron_arguments(const TorchFile& file, PickleId root) {
  const Pickle& pickle = file.pickle();
  std::vector<MegatronArgument> all;
  const auto arguments = pickle.find(root, "args");
  if (!arguments) return all;
  const PickleId state = pickle.state(*arguments);
  if (pickle.kind(state) != PickleKind::dict) return all;
  const auto items = pickle.children(state);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (pickle.kind(items[i]) != PickleKind::text) continue;
    if (auto value = shown_argument(pickle, items[i + 1]))
      all.push_back({std::string(pickle[items[i]].text), *std::move(value)});
  }
  return all;
}

void require_one_step(const std::vector<std::shared_ptr<const TorchFile>>& ranks,
                      std::initializer_list<const char*> keys) {
  const auto require_same = [&](const char* key, bool is_argument) {
    const auto value_in = [&](const TorchFile& file) -> std::string {
      const Pickle& pickle = file.pickle();
      auto from = std::optional(pickle.root());
      if (is_argument) from = pickle.find(pickle.root(), "args");
      const auto id = from ? pickle.find(*from, key) : std::nullopt;
      return id ? pickle.shown(*id) : "absent";
    };
    const std::string expected = value_in(*ranks[0]);
    for (const auto& file : ranks) {
      const std::string found = value_in(*file);
      if (expected == found) continue;
      fail_input(
          "'{}' and '{}' are not of one step of one run: {} is {} in the first and {} in the "
          "second",
          ranks[0]->name(), file->name(), key, expected, found);
    }
  };
  for (const char* key : keys) require_same(key, false);
  for (const char* key : {"tensor_model_parallel_size", "pipeline_model_parallel_size",
                          "num_layers", "padded_vocab_size"})
    require_same(key, true);
}

void MegatronCheckpoint::set_arguments(std::shared_ptr<const TorchFile> file, PickleId root) {
  file_ = std::move(file);
  root_ = root;
}

std::vector<MegatronArgument> MegatronCheckpoint::arguments() const {
  return described_ ? *described_ : megatron_arguments(*file_, root_);
}

std::optional<std::string> MegatronCheckpoint::argument(std::string_view name) const {
  if (described_) {
    const auto found = std::ranges::find(*described_, name, &MegatronArgument::name);
    return found == described_->end() ? std::nullopt : std::optional(found->value);
  }
  const Pickle& pickle = file_->pickle();
  const auto arguments = pickle.find(root_, "args");
  if (!arguments) {
    fail_input(
        "'{}' lacks 'args', the arguments of the run, which say what model it is, and no "
        "run_config.yaml of Megatron-Bridge is beside it",
        file_->name());
  }
  const auto value = pickle.find(*arguments, name);
  return value ? shown_argument(pickle, *value) : std::nullopt;
}

std::optional<double> MegatronCheckpoint::number_argument(std::string_view name) const {
  const auto text = argument(name);
  if (!text) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> MegatronCheckpoint::count_argument(std::string_view name) const {
  const auto value = number_argument(name);
  if (!value) return std::nullopt;
  if (const auto count = whole_count(*value)) return count;
  fail_input("'{}': its argument {} is {}, and a whole number from 0 to 10^15 was expected", where_,
             name, *value);
}

void MegatronCheckpoint::check_layers(std::int64_t layers) const {
  const auto told = argument("num_layers");
  if (!told || *told == fmt::format("{}", layers)) return;
  fail_input("'{}' holds {} in all stages, and its arguments say {}", where_,
             counted(layers, "layer"), *told);
}

JoinedTensor join_megatron_parts(const std::string& name, MegatronCut cut, const RankParts& parts,
                                 const ModelConfig& model, const RowOrder& heads) {
  if (cut == MegatronCut::none) return join_copies(name, parts);
  if (cut == MegatronCut::columns) return join_columns(name, parts);
  const auto ranks = static_cast<std::int64_t>(parts.size());
  JoinedTensor tensor = join_rows(name, parts);
  tensor.padded = cut == MegatronCut::words;
  if (cut == MegatronCut::heads) tensor.order = heads;
  if (cut == MegatronCut::gated && has_gate(model))
    tensor.order = {ranks, 2, model.ffn_hidden_size / ranks};
  return tensor;
}

std::string full_name(const MegatronName& name, std::int64_t first_layer) {
  if (name.is_module) return fmt::format("mtp.{}.{}", name.layer, name.ours);
  return name.layer < 0 ? name.ours
                        : fmt::format("layers.{}.{}", first_layer + name.layer, name.ours);
}

void refuse_megatron_tensor(const std::string& file, const std::string& name,
                            const std::string& shape) {
  fail_input(
      "'{}' holds the tensor '{}' {}, which is not one of a GPT, Llama or BERT of Megatron without "
      "experts; tensors are never dropped silently",
      file, name, shape);
}

}  // namespace trireme
