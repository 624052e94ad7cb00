// Finds the files of a step, checks that they are consistent, and joins their tensors.
#include "formats/deepspeed/folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/counted.h"
#include "base/error.h"
#include "formats/deepspeed/universal_states.h"
#include "formats/foreign_model.h"

namespace trireme {
namespace {

constexpr const char* universal_folder = "zero";

}  // namespace

DeepspeedFolder::DeepspeedFolder(const fs::path& folder)
    : MegatronCheckpoint(deepspeed_step_folder(folder).string()) {
  joined_ = std::make_unique<JoinedTensors>(where_, "run's arguments");
  find_files();
  require_one_step(models_, {"iteration", "global_steps", "dp_world_size"});
  universal_ = fs::is_directory(fs::path(where_) / universal_folder);
  if (universal_) {
    find_universal();
  } else {
    find_states();
    if (files_.layers.empty()) {
      find_modules();
    } else {
      find_layers();
    }
    find_plain_states();
  }
  std::set<std::string> all;
  for (const auto& [name, parts] : parts_) all.insert(name);
  for (const auto& names : names_) all.insert(names.begin(), names.end());
  table_ = DeepspeedNames({all.begin(), all.end()});
  check_layers(table_.layers());
  check_words();
  for (const auto& [name, parts] : parts_) saved_.emplace(full_name(table_.ours(name)), &parts);
}

void DeepspeedFolder::find_files() {
  files_ = list_deepspeed_files(where_);
  const DeepspeedFiles::ByRank& models = files_.models;
  if (models.empty()) {
    fail_input("'{}' does not contain 'mp_rank_00_model_states.pt', which describes the model",
               where_);
  }
  const auto open = [&](int rank) {
    const auto found = models.find(rank);
    if (found == models.end()) {
      fail_input(
          "'{}' lacks 'mp_rank_{:02d}_model_states.pt': {}, and the files of {} are there", where_,
          rank,
          rank == 0 ? "ranks count from 0"
                    : fmt::format("its arguments say {} x {} ranks (tensor x pipeline parallelism)",
                                  tp_, pp_),
          counted(models.size(), "rank"));
    }
    models_.push_back(std::make_shared<const TorchFile>(found->second));
  };
  open(0);
  const Pickle& first = models_[0]->pickle();
  if (!first.find(first.root(), "args")) {
    fail_input(
        "'{}' does not contain 'args', the arguments of Megatron-DeepSpeed; files of other "
        "programs do not describe their model",
        models_[0]->name());
  }
  set_arguments(models_[0], first.root());
  const auto told = [&](const char* name) {
    const double ranks = number_argument(name).value_or(1);
    return ranks >= 1 && ranks <= 4096 ? static_cast<int>(ranks) : 1;
  };
  tp_ = told("tensor_model_parallel_size");
  pp_ = told("pipeline_model_parallel_size");
  for (int rank = 1; rank < tp_ * pp_; ++rank) open(rank);
  if (static_cast<int>(models.size()) > tp_ * pp_) {
    fail_input(
        "'{}' has the files of {} (mp_rank_XX_model_states.pt), but according to its "
        "arguments there are {} x {} (tensor x pipeline parallelism): files of two runs are "
        "mixed",
        where_, counted(models.size(), "rank"), tp_, pp_);
  }
}

// Finds the modules of a pipeline, each stored in its own file.
void DeepspeedFolder::find_layers() {
  for (const auto& [number, ranks] : files_.layers) {
    std::vector<const WeightFile*> files;
    for (int tensor_rank = 0; tensor_rank < tp_; ++tensor_rank) {
      const auto path = ranks.find(tensor_rank);
      if (path == ranks.end()) {
        fail_input(
            "'{}' lacks 'layer_{:02d}-model_{:02d}-model_states.pt': according to its arguments "
            "there are {} of tensor parallelism, but {} of this layer {} present",
            where_, number, tensor_rank, counted(tp_, "rank"), counted(ranks.size(), "file"),
            ranks.size() == 1 ? "is" : "are");
      }
      files.push_back(&joined_->keep(open_weight_file(path->second)));
      in_order_.resize(static_cast<std::size_t>(tp_));
      in_order_[static_cast<std::size_t>(tensor_rank)].push_back(
          {fmt::format("{}.", number), files.back()});
    }
    if (static_cast<int>(ranks.size()) > tp_) {
      fail_input("'{}' has {} of layer {}, but according to its arguments there are {}", where_,
                 counted(ranks.size(), "rank"), number, tp_);
    }
    add_parts(fmt::format("{}.", number), files);
  }
}

// Without pipeline parallelism, the ranks' files hold the model, unless ZeRO stage 3 shards it.
void DeepspeedFolder::find_modules() {
  if (!states_.empty() && states_[0].stage == 3) return;
  std::vector<const WeightFile*> files;
  for (const File& file : models_) {
    const Pickle& pickle = file->pickle();
    const auto module = pickle.find(pickle.root(), "module");
    if (!module || pickle.kind(*module) != PickleKind::dict || pp_ > 1) {
      fail_input("'{}' has no model, and '{}' has no layer_NN-model_TT-model_states.pt either",
                 file->name(), where_);
    }
    files.push_back(&joined_->keep(torch_weights(file, *module)));
    in_order_.push_back({{"", files.back()}});
  }
  add_parts("", files);
}

void DeepspeedFolder::add_parts(const std::string& prefix,
                                const std::vector<const WeightFile*>& ranks) {
  for (const WeightEntry& entry : ranks[0]->tensors())
    if (!is_megatron_buffer(entry.name)) parts_[prefix + entry.name] = parts_in(ranks, entry.name);
}

// Finds the ZeRO ranks' files: either all of them or none.
void DeepspeedFolder::find_states() {
  if (files_.optimizer.empty()) return;
  for (std::size_t rank = 0; rank < models_.size(); ++rank) {
    const auto at = static_cast<int>(rank);
    const auto files = open_zero_files(where_, at, files_.optimizer[at], *models_[rank]);
    add_states(open_zero_states(files, *models_[rank]));
  }
  list_names();
  read_progress();
}

void DeepspeedFolder::add_states(ZeroStates states) {
  states_.push_back(std::move(states));
  if (states_.back().steps == states_[0].steps) return;
  fail_input("'{}': the optimizer of model rank {} took {}, but that of rank 0 took {}", where_,
             states_.size() - 1, counted(states_.back().steps, "step"), states_[0].steps);
}

void DeepspeedFolder::list_names() {
  names_.resize(static_cast<std::size_t>(pp_));
  for (int stage = 0; stage < pp_; ++stage) {
    for (const WeightEntry& entry : states_[rank(stage, 0)].weights->tensors())
      names_[static_cast<std::size_t>(stage)].push_back(entry.name);
  }
}

// Without ZeRO, each rank keeps all states of its parameters. No file says which layers a pipeline
// stage has.
void DeepspeedFolder::find_plain_states() {
  const auto has_optimizer = [](const File& file) {
    const auto optimizer = file->pickle().find(file->pickle().root(), "optimizer");
    return optimizer && file->pickle().kind(*optimizer) != PickleKind::none;
  };
  if (!states_.empty() || std::ranges::none_of(models_, has_optimizer)) return;
  std::string why = pp_ > 1 ? "the assignment of layers to pipeline stages is not recorded" : "";
  for (std::size_t rank = 0; why.empty() && rank < models_.size(); ++rank) {
    PlainStates found = open_plain_states(models_[rank], in_order_[rank]);
    why = found.left_out;
    if (why.empty()) add_states(std::move(found.states));
  }
  if (why.empty()) {
    list_names();
    return read_progress();
  }
  states_.clear();
  note_ = fmt::format(
      "its optimizer states, saved without ZeRO, are not imported, so training starts with new "
      "ones: {}",
      why);
}

void DeepspeedFolder::read_progress() {
  if (states_[0].steps == 0) return;
  const Pickle& first = models_[0]->pickle();
  const std::int64_t optimizer_steps = states_[0].steps;
  progress_ = {first.find_integer(first.root(), "iteration").value_or(optimizer_steps),
               optimizer_steps};
}

// Universal checkpoints store whole parameters, as if from a single rank.
void DeepspeedFolder::find_universal() {
  states_.push_back(open_universal_states(fs::path(where_) / universal_folder, models_));
  const ZeroStates& states = states_[0];
  const Pickle& first = models_[0]->pickle();
  const auto steps = first.find_integer(first.root(), "global_steps");
  if (steps && states.steps > *steps) {
    fail_input(
        "'{}' is from step {} of the optimizer, but according to '{}' it took {}: the files are "
        "from different steps of a run",
        states.weights->name(), states.steps, models_[0]->name(), counted(*steps, "step"));
  }
  // A run may start with a new optimizer, or skip steps without counting them.
  if (steps && states.steps > 0 && states.steps < *steps) {
    note_ = fmt::format("the optimizer took {} of the {} of the run", states.steps,
                        counted(*steps, "step"));
  }
  saved_tp_ = tp_;
  tp_ = pp_ = 1;
  names_.resize(1);
  for (const WeightEntry& entry : states.weights->tensors()) names_[0].push_back(entry.name);
  read_progress();
}

// Vocabulary padding was removed if DeepSpeed knew the vocabulary size.
void DeepspeedFolder::check_words() {
  if (!universal_) return;
  const Pickle& first = models_[0]->pickle();
  const auto info = first.find(first.root(), "universal_checkpoint_info");
  const auto words = info ? first.find_integer(*info, "original_vocab_size") : std::nullopt;
  const std::int64_t rows = vocabulary_rows();
  strips_padding_ = words == rows;
  const auto padded = number_argument("padded_vocab_size");
  if (!words || strips_padding_ || padded == static_cast<double>(rows)) return;
  fail_input(
      "'{}': the embedding has {} rows, but according to '{}' {} (original_vocab_size) were "
      "expected",
      where_, rows, models_[0]->name(), *words);
}

// A stage's fp32 shards of a parameter (which = -1) or of one of its moments.
RankParts DeepspeedFolder::state_parts(int stage, const std::string& name, int which) const {
  RankParts parts;
  for (int tensor_rank = 0; tensor_rank < tp_; ++tensor_rank) {
    const ZeroStates& states = states_[rank(stage, tensor_rank)];
    const WeightFile* file =
        which < 0 ? states.weights.get() : states.moments[static_cast<std::size_t>(which)].get();
    const WeightEntry* entry = file->find(name);
    if (!entry) fail_input("'{}' lacks the parameter '{}'", file->name(), name);
    parts.push_back({file, entry});
  }
  return parts;
}

bool DeepspeedFolder::is_bert() const {
  const auto predicts = [&](const std::string& name) {
    return table_.ours(name).ours.starts_with("masked_head.");
  };
  return std::ranges::any_of(parts_, [&](const auto& one) { return predicts(one.first); }) ||
         std::ranges::any_of(
             names_, [&](const auto& names) { return std::ranges::any_of(names, predicts); });
}

std::int64_t DeepspeedFolder::vocabulary_rows() const {
  const auto is_words = [&](const std::string& name) {
    return table_.ours(name).ours == "embedding.word.weight";
  };
  for (const auto& [name, parts] : parts_)
    if (is_words(name)) return parts[0].entry->rows() * tp_;
  for (std::size_t stage = 0; stage < names_.size(); ++stage) {
    for (const std::string& name : names_[stage]) {
      if (is_words(name))
        return states_[rank(static_cast<int>(stage), 0)].weights->find(name)->rows() * tp_;
    }
  }
  fail_input("'{}' has no word embedding", where_);
}

void DeepspeedFolder::add(JoinedTensors& out, const std::string& theirs, const RankParts& parts,
                          const ModelConfig& model, int which) const {
  const MegatronName name = table_.ours(theirs);
  if (name.ours.empty()) {
    refuse_megatron_tensor(parts[0].file->name(), theirs, shape_text(parts[0].entry->shape));
  }
  // Checks all three files of the parameter at once.
  if (which < 0 && universal_ && saved_tp_ > 1 && name.cut == MegatronCut::gated && has_gate(model))
    require_halves_joined_apart(fs::path(where_) / universal_folder, theirs);
  std::string ours = full_name(name);
  if (model.tie_embeddings && ours == "head.weight") ours = "embedding.word.weight";
  const std::string key = which < 0 ? ours : moment_name(ours, which);
  if (const JoinedTensor* other = out.find(key)) {
    // The first and last pipeline stages both hold the shared word embedding.
    for (std::size_t i = 0; i < parts.size(); ++i) require_copy(other->parts[i], parts[i]);
    return;
  }
  out.add(join_megatron_parts(key, name.cut, parts, model));
}

bool DeepspeedFolder::is_unused_copy(const std::string& name) const {
  return name.starts_with("tied_modules.") && table_.ours(name).ours != "embedding.word.weight";
}

// Weights saved in the model's type must equal the fp32 weights after rounding.
void DeepspeedFolder::check_against_states(int stage, const std::string& name) const {
  if (states_[0].stage == 3) return;
  const auto saved = saved_.find(full_name(table_.ours(name)));
  if (saved == saved_.end()) {
    fail_input("'{}' does not contain the tensor '{}', whose states are in its ZeRO files", where_,
               name);
  }
  const RankParts states = state_parts(stage, name, -1);
  for (std::size_t i = 0; i < states.size(); ++i)
    require_rounded_from((*saved->second)[i], states[i]);
}

std::unique_ptr<JoinedTensors> DeepspeedFolder::join(const ModelConfig& model) {
  for (std::size_t stage = 0; stage < names_.size(); ++stage) {
    const int at = static_cast<int>(stage);
    for (const std::string& name : names_[stage]) {
      // The last stage stores the whole module shared with the first, but uses only its embedding.
      if (stage > 0 && is_unused_copy(name)) continue;
      check_against_states(at, name);
      add(*joined_, name, state_parts(at, name, -1), model, -1);
      for (int which = 0; progress_ && which < adam_moments; ++which)
        add(*joined_, name, state_parts(at, name, which), model, which);
    }
  }
  for (const auto& [name, parts] : parts_) {
    const std::string ours = full_name(table_.ours(name));
    if (!names_.empty() && joined_->find(ours)) continue;
    if (!names_.empty() && !ours.empty()) {
      fail_input("'{}' contains the tensor '{}', but the ZeRO files do not", parts[0].file->name(),
                 name);
    }
    add(*joined_, name, parts, model, -1);
  }
  if (!names_.empty()) {
    const WeightEntry* saved = parts_.empty() ? nullptr : parts_.begin()->second[0].entry;
    add_note(note_, fmt::format("the weights are the fp32 master weights of the optimizer{}",
                                saved && saved->type != "F32"
                                    ? fmt::format("; the model computed in {}", saved->type)
                                    : ""));
    for (ZeroStates& states : states_) keep_states(*joined_, states);
  }
  return std::move(joined_);
}

}  // namespace trireme
