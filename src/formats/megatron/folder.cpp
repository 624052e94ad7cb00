// Opens all ranks' files of a step, checks that they are consistent, and joins their tensors.
#include "formats/megatron/folder.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/counted.h"
#include "base/error.h"
#include "formats/megatron/distributed.h"

namespace trireme {

// A tensor of a model chunk on all of its ranks.
struct MegatronFolder::Found {
  std::string name;  // ours
  MegatronName how;
  RankParts parts;
};

MegatronFolder::MegatronFolder(const fs::path& folder)
    : MegatronCheckpoint(megatron_step_folder(folder).string()) {
  const fs::path step = where_;
  find_ranks(step);
  open_ranks(step);
  require_one_step(ranks_, {"iteration", "checkpoint_version"});
  check_order();
  joined_ = std::make_unique<JoinedTensors>(where_, "run's arguments");
  find_chunks();
  count_layers();
}

void MegatronFolder::find_ranks(const fs::path& step) {
  if (fs::exists(step / "metadata.json") || fs::exists(step / ".metadata")) {
    fail_input(
        "'{}' is of Megatron-Core's distributed format (torch_dist): leave --from out, or give "
        "--from torch_dist",
        where_);
  }
  std::set<int> numbers;
  for (const auto& item : fs::directory_iterator(step)) {
    const auto rank = megatron_rank_name(item.path().filename().string());
    if (!rank) continue;
    numbers.insert(rank->numbers);
    tp_ = std::max(tp_, rank->tensor_rank + 1);
    pp_ = std::max(pp_, rank->stage + 1);
  }
  if (numbers.empty()) {
    fail_input("'{}' has no folders mp_rank_TT or mp_rank_TT_PPP; found are {}", where_,
               names_in_folder(step));
  }
  if (numbers.contains(3)) {
    fail_input("'{}' has ranks of expert parallelism (mp_rank_TT_PPP_EEE), which are not read",
               where_);
  }
  if (numbers.size() > 1) {
    fail_input(
        "'{}' holds ranks of two layouts, with a number of a stage and without: remove those that "
        "do not belong to this step; found are {}",
        where_, names_in_folder(step));
  }
}

void MegatronFolder::open_ranks(const fs::path& step) {
  const bool has_stage = fs::exists(step / megatron_rank_folder(0, 0, true));
  const auto path = [&](int stage, int tensor_rank) {
    return step / megatron_rank_folder(tensor_rank, stage, has_stage) / megatron_rank_file;
  };
  // The first file states the parallel sizes, which may exceed what the file names suggest.
  int tp = tp_, pp = pp_;
  for (int stage = 0; stage < pp; ++stage) {
    for (int tensor_rank = 0; tensor_rank < tp; ++tensor_rank) {
      const fs::path file = path(stage, tensor_rank);
      if (!fs::exists(file)) {
        fail_input(
            "'{}' is missing: by {} the step has {} x {} files (tensor x pipeline parallelism); "
            "found are {}",
            file.string(), ranks_.empty() ? "the names" : "its arguments", tp, pp,
            names_in_folder(step));
      }
      ranks_.push_back(std::make_shared<const TorchFile>(file));
      if (ranks_.size() > 1) continue;
      set_arguments(ranks_[0], ranks_[0]->pickle().root());
      const auto told = [&](const char* name, const char* older, int found) {
        auto text = argument(name);
        if (!text) text = argument(older);
        int number = found;
        if (text) std::from_chars(text->data(), text->data() + text->size(), number);
        return std::clamp(number, 1, most_megatron_ranks);
      };
      tp = told("tensor_model_parallel_size", "model_parallel_size", tp_);
      pp = told("pipeline_model_parallel_size", "", pp_);
    }
  }
  if (tp < tp_ || pp < pp_) {
    fail_input(
        "'{}' has folders for {} x {} ranks (tensor x pipeline parallelism), and its arguments say "
        "{} x {}: files of two runs are mixed; found are {}",
        where_, tp_, pp_, tp, pp, names_in_folder(step));
  }
  tp_ = tp;
  pp_ = pp;
}

// Checks the global rank of each process, if saved: it increases with the tensor-parallel rank, and
// from stage to stage.
void MegatronFolder::check_order() const {
  std::vector<double> numbers;
  for (const auto& file : ranks_) {
    const Pickle& pickle = file->pickle();
    const auto arguments = pickle.find(pickle.root(), "args");
    const auto number = arguments ? pickle.find_number(*arguments, "rank") : std::nullopt;
    if (!number) return;
    numbers.push_back(*number);
  }
  // Tools that save all ranks from one process store the same rank in all files.
  if (std::ranges::all_of(numbers, [&](double number) { return number == numbers[0]; })) return;
  const auto wrong = std::ranges::adjacent_find(numbers, std::ranges::greater_equal());
  if (wrong == numbers.end()) return;
  const auto at = static_cast<std::size_t>(wrong - numbers.begin());
  fail_input(
      "'{}' was saved by process {} and '{}' by process {}, and a later one was expected: the "
      "folders of ranks have other names than they were saved with",
      ranks_[at]->name(), numbers[at], ranks_[at + 1]->name(), numbers[at + 1]);
}

void MegatronFolder::find_chunks() {
  for (int chunk = 0;; ++chunk) {
    bool any = false;
    for (int stage = 0; stage < pp_; ++stage) {
      const Pickle& first = rank(stage, 0).pickle();
      const bool one = first.find(first.root(), "model").has_value();
      Chunk made{.stage = stage,
                 .key = one ? "model" : fmt::format("model{}", chunk),
                 .ranks = {},
                 .states = {}};
      if ((one && chunk > 0) || !first.find(first.root(), made.key)) continue;
      for (int tensor_rank = 0; tensor_rank < tp_; ++tensor_rank) {
        const auto& file = ranks_[static_cast<std::size_t>(stage * tp_ + tensor_rank)];
        const auto root = file->pickle().find(file->pickle().root(), made.key);
        if (!root) fail_input("'{}' lacks '{}'", file->name(), made.key);
        made.ranks.push_back(&joined_->keep(torch_weights(file, *root)));
      }
      chunks_.push_back(std::move(made));
      any = true;
    }
    if (!any) break;
  }
  if (chunks_.empty()) {
    fail_input("'{}' is not a checkpoint of Megatron-LM: it has neither 'model' nor 'model0'",
               ranks_[0]->name());
  }
}

// Chunks are interleaved across stages: the first chunk of each stage, then the second of each.
void MegatronFolder::count_layers() {
  std::int64_t next = 0;
  for (Chunk& chunk : chunks_) {
    for (const WeightEntry& entry : chunk.ranks[0]->tensors()) {
      const MegatronName name = megatron_name(entry.name);
      if (!name.is_module) chunk.layers = std::max(chunk.layers, name.layer + 1);
      if (!name.is_module || chunks_.size() == 1) continue;
      fail_input(
          "'{}' holds the tensor '{}' of a module of multi-token prediction: of several stages "
          "they are read from Megatron-Core's distributed format alone (--ckpt-format torch_dist)",
          chunk.ranks[0]->name(), entry.name);
    }
    chunk.first_layer = next;
    next += chunk.layers;
  }
  check_layers(next);
}

bool MegatronFolder::is_core() const {
  return std::ranges::any_of(chunks_, [](const Chunk& chunk) {
    return std::ranges::any_of(chunk.ranks[0]->tensors(), [](const WeightEntry& entry) {
      return is_of_megatron_core(entry.name);
    });
  });
}

bool MegatronFolder::is_bert() const {
  return std::ranges::any_of(chunks_, [](const Chunk& chunk) {
    return std::ranges::any_of(chunk.ranks[0]->tensors(), [](const WeightEntry& entry) {
      return megatron_name(entry.name).ours.starts_with("masked_head.");
    });
  });
}

std::int64_t MegatronFolder::vocabulary_rows() const {
  for (const Chunk& chunk : chunks_) {
    for (const WeightEntry& entry : chunk.ranks[0]->tensors()) {
      if (megatron_name(entry.name).ours == "embedding.word.weight") return entry.rows() * tp_;
    }
  }
  fail_input("'{}' has no embedding of words", where_);
}

std::vector<MegatronFolder::Found> MegatronFolder::find_tensors(const Chunk& chunk) const {
  std::vector<Found> found;
  for (const WeightEntry& entry : chunk.ranks[0]->tensors()) {
    if (is_megatron_buffer(entry.name)) continue;
    Found one{"", megatron_name(entry.name), {}};
    if (one.how.ours.empty()) {
      refuse_megatron_tensor(chunk.ranks[0]->name(), entry.name, shape_text(entry.shape));
    }
    const bool first_has_it = one.how.ours.starts_with("embedding.") && !one.how.is_copy;
    const bool last_has_it =
        one.how.layer < 0 && !one.how.ours.starts_with("embedding.") && !one.how.is_copy;
    if ((first_has_it && &chunk != &chunks_.front()) ||
        (last_has_it && &chunk != &chunks_.back())) {
      fail_input(
          "'{}' holds the tensor '{}', which the {} stage of a pipeline has: the folders of its "
          "ranks have other names than they were saved with",
          chunk.ranks[0]->name(), entry.name, first_has_it ? "first" : "last");
    }
    one.name = full_name(one.how, chunk.first_layer);
    one.parts = parts_in(chunk.ranks, entry.name);
    found.push_back(std::move(one));
  }
  require_no_other_tensors(chunk.ranks);
  return found;
}

// Row order to convert to that of version 2 and later: per head its queries, keys and values.
RowOrder MegatronFolder::head_order(const ModelConfig& model) const {
  const Pickle& pickle = ranks_[0]->pickle();
  const double version = pickle.find_number(pickle.root(), "checkpoint_version").value_or(0);
  if (version >= 2) return {};
  if (version != 0 && version != 1) {
    fail_input("'{}' has checkpoint_version {}; 0, 1, 2 and 3 are read", ranks_[0]->name(),
               version);
  }
  if (model.num_kv_heads != model.num_heads) {
    fail_input("'{}' has groups of heads and checkpoint_version {}, which did not have them",
               ranks_[0]->name(), version);
  }
  if (version == 0) return {3, model.num_heads / tp_, model.head_dim};
  return {model.head_dim, 3, 1};
}

// Reads the states of all ranks or of none.
void MegatronFolder::read_states() {
  std::optional<std::int64_t> steps;
  std::vector<std::vector<MegatronChunkStates>> by_chunk(chunks_.size());
  for (std::size_t at = 0; at < ranks_.size(); ++at) {
    std::vector<const WeightFile*> weights;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      if (chunks_[i].stage != static_cast<int>(at) / tp_) continue;
      weights.push_back(chunks_[i].ranks[at % static_cast<std::size_t>(tp_)]);
      places.push_back(i);
    }
    MegatronRankStates states = open_megatron_states(
        ranks_[at], weights,
        fs::path(ranks_[at]->name()).replace_filename(megatron_distributed_file));
    if (!states.left_out.empty()) {
      note_ = fmt::format(
          "the states of its optimizer are left out, so that training begins with new ones: {}",
          states.left_out);
      return;
    }
    const auto here = states.chunks.empty() ? std::nullopt : std::optional(states.steps);
    const auto text = [](const auto& count) {
      return count ? counted(*count, "step") : std::string("no states of an optimizer");
    };
    if (at > 0 && here != steps) {
      fail_input(
          "'{}' has {} and '{}' has {}: either all ranks have such states, of the same number of "
          "steps, or none",
          ranks_[0]->name(), text(steps), ranks_[at]->name(), text(here));
    }
    steps = here;
    for (std::size_t i = 0; i < states.chunks.size(); ++i)
      by_chunk[places[i]].push_back(std::move(states.chunks[i]));
  }
  if (!steps) return;
  set_progress(*steps);
  for (std::size_t i = 0; progress_ && i < chunks_.size(); ++i)
    chunks_[i].states = std::move(by_chunk[i]);
}

void MegatronFolder::set_progress(std::int64_t steps) {
  const Pickle& pickle = ranks_[0]->pickle();
  const auto iteration = pickle.find_integer(pickle.root(), "iteration");
  if (iteration && steps > 0 && steps <= *iteration) {
    progress_ = {*iteration, steps};
    return;
  }
  note_ = fmt::format(
      "the states of its optimizer are left out, so that training begins with new ones: it took "
      "{}, "
      "and by '{}' the run took {}",
      counted(steps, "step"), ranks_[0]->name(),
      iteration ? fmt::format("{}", *iteration) : "an unknown number");
}

RankParts MegatronFolder::state_parts(const Chunk& chunk, const RankParts& weights, int which) {
  RankParts parts;
  for (std::size_t rank = 0; rank < weights.size(); ++rank) {
    const MegatronChunkStates& states = chunk.states[rank];
    const WeightFile* file =
        which < 0 ? states.weights.get() : states.moments[static_cast<std::size_t>(which)].get();
    const WeightEntry* entry = file->find(weights[rank].entry->name);
    parts.push_back(entry ? TensorPart{file, entry} : weights[rank]);
  }
  return parts;
}

std::unique_ptr<JoinedTensors> MegatronFolder::join(const ModelConfig& model) {
  read_states();
  std::vector<Found> copies;
  const RowOrder heads = head_order(model);
  for (const Chunk& chunk : chunks_) {
    for (Found& found : find_tensors(chunk)) {
      const bool tied_head = model.tie_embeddings && found.name == "head.weight";
      if (tied_head) found.name = "embedding.word.weight";
      if (tied_head || found.how.is_copy) {
        if (progress_) found.parts = state_parts(chunk, found.parts, -1);
        copies.push_back(std::move(found));
        continue;
      }
      const auto add = [&](const std::string& name, const RankParts& parts) {
        joined_->add(join_megatron_parts(name, found.how.cut, parts, model, heads));
      };
      if (!progress_) {
        add(found.name, found.parts);
        continue;
      }
      add(found.name, state_parts(chunk, found.parts, -1));
      for (int which = 0; which < adam_moments; ++which)
        add(moment_name(found.name, which), state_parts(chunk, found.parts, which));
    }
  }
  require_copies(copies);
  for (Chunk& chunk : chunks_)
    for (MegatronChunkStates& states : chunk.states) keep_states(*joined_, states);
  if (progress_) note_ = "the weights are those of the optimizer, in fp32";
  return std::move(joined_);
}

void MegatronFolder::require_copies(const std::vector<Found>& copies) const {
  for (const Found& copy : copies) {
    const JoinedTensor* original = joined_->find(copy.name);
    for (std::size_t i = 0; original && i < copy.parts.size(); ++i)
      require_copy(original->parts[i], copy.parts[i]);
  }
}

}  // namespace trireme
