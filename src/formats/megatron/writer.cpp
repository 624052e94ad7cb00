// Builds the dictionaries of each pipeline stage and each rank's shards of their tensors.
#include "formats/megatron/writer.h"

#include <algorithm>

#include "base/error.h"
#include "config/families.h"
#include "formats/megatron/step.h"
#include "formats/rank_files.h"

namespace trireme {
namespace {

struct StageItem {
  std::string name;  // theirs
  std::size_t target;
  RankCut cut;
};

bool is_encoder(const ModelConfig& model) {
  return family_of(model).architecture == Architecture::encoder;
}

void require_division(std::int64_t number, const char* key, int parts, const char* option) {
  if (number % parts == 0) return;
  fail_input("{} {} does not divide model.{} = {}, which Megatron shares evenly", option, parts,
             key, number);
}

void check_layout(const ModelConfig& m, const MegatronLayout& layout) {
  require_division(m.num_heads, "num_heads", layout.tp, "--tp");
  require_division(m.num_kv_heads, "num_kv_heads", layout.tp, "--tp");
  require_division(m.ffn_hidden_size, "ffn_hidden_size", layout.tp, "--tp");
  require_division(m.num_layers, "num_layers", layout.pp, "--pp");
  if (m.mtp_layers > 0 && layout.pp > 1) {
    fail_input(
        "--pp {}: a model with modules of multi-token prediction (model.mtp_layers = {}) is written "
        "for one stage; --to torch_dist writes it for any layout",
        layout.pp, m.mtp_layers);
  }
}

RankCut rank_cut(MegatronCut cut, const ModelConfig& model, int tp) {
  using enum RankCut::Along;
  switch (cut) {
    case MegatronCut::none:
      return {};
    case MegatronCut::columns:
      return {.along = columns};
    case MegatronCut::words:
      return {.along = rows, .padded_rows = megatron_vocabulary(model, tp)};
    case MegatronCut::gated:
      return {.along = rows, .blocks = has_gate(model) ? 2 : 1};
    case MegatronCut::rows:
    case MegatronCut::heads:
      break;
  }
  return {.along = rows};
}

class MegatronFiles {
 public:
  MegatronFiles(const MegatronFolderOptions& options, const TensorAssembler& assembler)
      : model_(options.model), options_(options), assembler_(assembler), stages_(count(options)) {
    for (std::size_t i = 0; i < assembler.targets().size(); ++i) place(i);
    if (model_.tie_embeddings && stages_.size() > 1) place_copy();
    // In legacy models, modules outside of language_model follow it.
    for (auto& items : stages_) {
      std::ranges::stable_partition(
          items, [](const StageItem& item) { return item.name.starts_with("language_model."); });
    }
  }

  void write(const fs::path& step) const {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      std::vector<fs::path> files;
      for (int rank = 0; rank < options_.layout.tp; ++rank) {
        const fs::path folder =
            step / megatron_rank_folder(rank, static_cast<int>(stage), stages_.size() > 1);
        make_folders(folder);
        files.push_back(folder / megatron_rank_file);
      }
      RankFiles ranks(files, {root(stage)});
      for (const StageItem& item : stages_[stage])
        ranks.write(assembler_, item.target, dtype(item.target), item.cut);
      ranks.finish();
    }
  }

 private:
  static std::size_t count(const MegatronFolderOptions& options) {
    return static_cast<std::size_t>(options.layout.pp);
  }
  DType dtype(std::size_t target) const {
    return options_.dtype.value_or(assembler_.dtype(target));
  }
  std::int64_t layers_of_stage() const { return model_.num_layers / options_.layout.pp; }

  void add(std::size_t stage, const std::string& theirs, std::size_t target) {
    RankCut cut = rank_cut(megatron_name(theirs).cut, model_, options_.layout.tp);
    if (assembler_.targets()[target].name == "masked_head.bias") cut.padding = never_predicted;
    stages_[stage].push_back({theirs, target, cut});
  }

  void place(std::size_t target) {
    MegatronName name = split_name(assembler_.targets()[target].name);
    const std::int64_t layer = name.layer;
    const std::int64_t per_stage = layers_of_stage();
    if (layer >= 0 && !name.is_module) name.layer = layer % per_stage;
    const std::string theirs = megatron_name_of(name, options_.layout.kind, is_encoder(model_));
    if (theirs.empty()) {
      fail_input(
          "cannot write a checkpoint of Megatron-LM: its models have no name for the tensor '{}'",
          assembler_.targets()[target].name);
    }
    const std::size_t end = name.ours.starts_with("embedding.") ? 0 : stages_.size() - 1;
    const bool in_stage = layer >= 0 && !name.is_module;
    add(in_stage ? static_cast<std::size_t>(layer / per_stage) : end, theirs, target);
  }

  void place_copy() {
    const auto& all = assembler_.targets();
    const auto words = std::ranges::find(all, "embedding.word.weight", &NamedTensor::name);
    TRIREME_CHECK(words != all.end());
    add(stages_.size() - 1, megatron_copy_name(options_.layout.kind),
        static_cast<std::size_t>(words - all.begin()));
  }

  TorchDict root(std::size_t stage) const {
    TorchDict model;
    for (const StageItem& item : stages_[stage]) {
      const std::size_t target = item.target;
      insert(model, item.name,
             {TorchTensor{dtype(target), part_shape(assembler_.targets()[target].shape, item.cut,
                                                    options_.layout.tp)}});
    }
    const auto add_all = [&](std::vector<std::string> names) {
      for (std::string& name : names) model.push_back({std::move(name), {}});
    };
    const auto add_states = [&](std::int64_t layer) {
      add_all(megatron_states(layer, options_.layout.kind, is_encoder(model_)));
    };
    for (std::int64_t layer = 0; layer < layers_of_stage(); ++layer) add_states(layer);
    if (stage + 1 == stages_.size()) add_states(-1);
    for (std::int64_t module = 0; module < model_.mtp_layers; ++module)
      add_all(megatron_module_states(module));
    return {{"args", {TorchObject{"argparse", "Namespace", options_.arguments}}},
            {"checkpoint_version", {3.0}},
            {"iteration", {options_.iteration}},
            {"model", {std::move(model)}}};
  }

  // Legacy models use nested dictionaries, down to the level of torch.nn modules.
  void insert(TorchDict& model, std::string_view name, TorchValue value) const {
    int depth = 0;
    if (options_.layout.kind == MegatronKind::legacy)
      depth = name.starts_with("language_model.embedding.") ? 3
              : name.starts_with("language_model.")         ? 2
                                                            : 1;
    TorchDict* place = &model;
    for (; depth > 0; --depth) {
      const std::string key(name.substr(0, name.find('.')));
      name.remove_prefix(key.size() + 1);
      if (place->empty() || place->back().key != key) {
        // Tensors of a dictionary must be adjacent, since they are written in this order.
        TRIREME_CHECK(std::ranges::find(*place, key, &TorchItem::key) == place->end());
        place->push_back({key, {TorchDict{}}});
      }
      place = &std::get<TorchDict>(place->back().value.value);
    }
    place->push_back({std::string(name), std::move(value)});
  }

  const ModelConfig& model_;
  const MegatronFolderOptions& options_;
  const TensorAssembler& assembler_;
  std::vector<std::vector<StageItem>> stages_;
};

}  // namespace

std::int64_t megatron_vocabulary(const ModelConfig& model, int tp) {
  const std::int64_t multiple = model.vocab_multiple * tp;
  return (model.vocab_size + multiple - 1) / multiple * multiple;
}

void write_megatron_folder(const fs::path& to, const MegatronFolderOptions& options,
                           const TensorAssembler& assembler) {
  constexpr const char* step = "release";
  check_layout(options.model, options.layout);
  MegatronFiles(options, assembler).write(to / step);
  write_file_durably(to / megatron_tracker_file, step);
}

}  // namespace trireme
