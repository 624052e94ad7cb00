// Finds the pieces of each parameter in the flat partitions of all ranks.
#include "formats/zero_states.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/counted.h"
#include "base/error.h"

namespace trireme {
namespace {

using Files = std::vector<std::shared_ptr<const TorchFile>>;

using Group = std::vector<ZeroParameter>;

PickleId wanted(const TorchFile& file, PickleId dict, const char* key) {
  const auto found = file.pickle().find(dict, key);
  if (!found) fail_input("'{}' lacks '{}', which DeepSpeed's ZeRO stores", file.name(), key);
  return *found;
}

// Looks up an integer key.
std::optional<PickleId> find_number(const Pickle& pickle, PickleId dict, std::int64_t key) {
  if (pickle.kind(dict) != PickleKind::dict) return std::nullopt;
  const auto items = pickle.children(dict);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    const PickleValue& found = pickle[items[i]];
    if (found.kind == PickleKind::integer && found.integer == key) return items[i + 1];
  }
  return std::nullopt;
}

// A rank's file and the values used from it.
struct Rank {
  std::shared_ptr<const TorchFile> file;
  PickleId root = 0;   // optimizer_state_dict
  PickleId state = 0;  // of Adam, by group

  const Pickle& pickle() const { return file->pickle(); }
  const PickleTensor& flat(PickleId id, const char* what) const {
    if (pickle().kind(id) == PickleKind::tensor) {
      const PickleTensor& tensor = pickle().tensor(id);
      if (tensor.type->ours == DType::f32 && tensor.shape.size() <= 1) return tensor;
    }
    fail_input("'{}' has {} as {}, but an fp32 vector was expected", file->name(),
               pickle().shown(id), what);
  }
};

class ZeroReader {
 public:
  ZeroReader(const Files& files, const TorchFile& model)
      : model_(model), groups_(read_param_shapes(model)) {
    TRIREME_CHECK(!files.empty());
    for (const auto& file : files) {
      const Pickle& pickle = file->pickle();
      ranks_.push_back({file, wanted(*file, pickle.root(), "optimizer_state_dict")});
    }
    const Pickle& first = ranks_[0].pickle();
    whole_parameters_ = !first.find(ranks_[0].root, "fp32_flat_groups").has_value();
    refuse_frozen_parameters(model_);
    for (Rank& rank : ranks_) rank.state = find_state(rank);
  }

  ZeroStates read() {
    ZeroStates out;
    out.stage = whole_parameters_ ? 1 : 3;
    out.weights = collect(-1);
    out.steps = steps();
    if (out.steps == 0) return out;
    for (int which = 0; which < adam_moments; ++which)
      out.moments[static_cast<std::size_t>(which)] = collect(which);
    return out;
  }

 private:
  using Tensors = std::vector<PiecedWeights::Tensor>;

  // Finds the states of the parameter groups.
  PickleId find_state(const Rank& rank) const {
    const Pickle& pickle = rank.pickle();
    const PickleId base = wanted(
        *rank.file, rank.root, whole_parameters_ ? "base_optimizer_state" : "optimizer_state_dict");
    if (pickle.kind(base) != PickleKind::dict) {
      fail_input("'{}' was saved with elastic_checkpoint = true, which is not supported",
                 rank.file->name());
    }
    return wanted(*rank.file, base, "state");
  }

  PickleId item(const Rank& rank, PickleId list, std::size_t at, const char* what) const {
    const auto items = rank.pickle().children(list);
    if (items.size() == groups_.size()) return items[at];
    fail_input("'{}' has {} in {}, and by '{}' there are {}", rank.file->name(),
               counted(items.size(), "group"), what, model_.name(), groups_.size());
  }

  // The rank's partition of a group: of a moment, or of the weights (-1).
  const PickleTensor& share(const Rank& rank, std::size_t group, int which) const {
    const char* key = whole_parameters_ ? "single_partition_of_fp32_groups" : "fp32_flat_groups";
    if (which < 0)
      return rank.flat(item(rank, wanted(*rank.file, rank.root, key), group, key), key);
    const char* moment = torch_moment_keys[static_cast<std::size_t>(which)];
    const auto state = find_number(rank.pickle(), rank.state, static_cast<std::int64_t>(group));
    const auto found = state ? rank.pickle().find(*state, moment) : std::nullopt;
    if (found) return rank.flat(*found, moment);
    fail_input("'{}' lacks '{}' of the group {} of parameters, which Adam keeps", rank.file->name(),
               moment, group);
  }

  std::int64_t steps() const {
    std::optional<double> steps;
    for (const Rank& rank : ranks_) {
      for (std::size_t group = 0; group < groups_.size(); ++group) {
        const auto found = step_of(rank, group);
        const double here = found ? optimizer_step(*rank.file, *found) : 0;
        if (!steps) steps = here;
        if (here == *steps && here >= 0 && here < 1e15 && here == std::floor(here)) continue;
        fail_input(
            "'{}' is from optimizer step {} in its group {}, but '{}' is from step {} in its first "
            "group: the files are from different steps of a run",
            rank.file->name(), here, group, ranks_[0].file->name(), *steps);
      }
    }
    return static_cast<std::int64_t>(steps.value_or(0));
  }
  // Step count in the state or, for some DeepSpeed optimizers, in the group.
  std::optional<PickleId> step_of(const Rank& rank, std::size_t group) const {
    const Pickle& pickle = rank.pickle();
    const auto state = find_number(pickle, rank.state, static_cast<std::int64_t>(group));
    if (!state) return std::nullopt;
    if (const auto step = pickle.find(*state, "step")) return step;
    const PickleId base = wanted(
        *rank.file, rank.root, whole_parameters_ ? "base_optimizer_state" : "optimizer_state_dict");
    const auto settings = pickle.children(wanted(*rank.file, base, "param_groups"));
    for (const PickleId one : settings) {
      if (const auto step = pickle.find(one, "step")) return step;
    }
    fail_input("'{}' does not record the optimizer step", rank.file->name());
  }

  std::unique_ptr<WeightFile> collect(int which) const {
    Tensors tensors;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      if (whole_parameters_) {
        collect_cut_groups(group, which, tensors);
      } else {
        collect_cut_parameters(group, which, tensors);
      }
    }
    return std::make_unique<PiecedWeights>(ranks_[0].file->name(), std::move(tensors));
  }

  static PiecedWeights::Tensor begin(const ZeroParameter& parameter) {
    return {{parameter.name, "F32", DType::f32, parameter.shape}, {}};
  }

  // Stages 1 and 2: a group's parameters are concatenated, padded at the end and split into equal
  // partitions. Weights are stored without the padding.
  void collect_cut_groups(std::size_t group, int which, Tensors& out) const {
    const auto size = [&](const Rank& rank) { return share(rank, group, which).count(); };
    const auto padded = [&](const Rank& rank) {
      const auto state = find_number(rank.pickle(), rank.state, static_cast<std::int64_t>(group));
      const bool has = state && rank.pickle().find(*state, torch_moment_keys[0]);
      return has ? share(rank, group, 0).count() : size(rank);
    };
    const std::int64_t part = padded(ranks_[0]);
    const auto gaps = gaps_of(group);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < groups_[group].size(); ++i) {
      const ZeroParameter& parameter = groups_[group][i];
      PiecedWeights::Tensor tensor = begin(parameter);
      for (std::int64_t done = 0; done < parameter.count;) {
        const auto rank = static_cast<std::size_t>(part > 0 ? (at + done) / part : 0);
        const std::int64_t first = part > 0 ? (at + done) % part : 0;
        const std::int64_t count = std::min(parameter.count - done, part - first);
        if (rank >= ranks_.size() || first + count > size(ranks_[rank])) {
          fail_input(
              "'{}': the group {} of parameters has fewer elements in all {} ranks than the shapes "
              "in '{}' need",
              ranks_[std::min(rank, ranks_.size() - 1)].file->name(), group, ranks_.size(),
              model_.name());
        }
        check_fragment(ranks_[rank], group, parameter.name, first, count);
        tensor.pieces.push_back(
            {ranks_[rank].file, &share(ranks_[rank], group, which), first, count});
        done += count;
      }
      at += parameter.count + (gaps.empty() ? 0 : gaps[i]);
      out.push_back(std::move(tensor));
    }
    check_padding(group, part, at);
  }

  // Padding after each parameter of a group.
  std::vector<std::int64_t> gaps_of(std::size_t group) const {
    const Rank& rank = ranks_[0];
    const auto all = rank.pickle().find(rank.root, "param_alignment_paddings");
    if (!all || rank.pickle().children(*all).empty()) return {};
    std::vector<std::int64_t> gaps;
    const PickleId list = item(rank, *all, group, "param_alignment_paddings");
    for (const PickleId id : rank.pickle().children(list))
      gaps.push_back(rank.pickle()[id].kind == PickleKind::integer ? rank.pickle()[id].integer : 0);
    if (gaps.size() < groups_[group].size()) return {};
    return gaps;
  }

  // Newer releases also record each parameter's location in a partition.
  void check_fragment(const Rank& rank, std::size_t group, const std::string& name,
                      std::int64_t first, std::int64_t count) const {
    const Pickle& pickle = rank.pickle();
    const auto all = pickle.find(rank.root, "param_slice_mappings");
    if (!all || pickle.children(*all).size() != groups_.size()) return;
    const auto place = pickle.find(pickle.children(*all)[group], name);
    const auto start = place ? pickle.find_integer(*place, "start") : std::nullopt;
    const auto length = place ? pickle.find_integer(*place, "numel") : std::nullopt;
    if (start == first && length == count) return;
    fail_input(
        "'{}': by the shapes in '{}' the rank holds {} of '{}' from {} on, and by its "
        "param_slice_mappings {} from {} on: the files do not belong together",
        rank.file->name(), model_.name(), counted(count, "element"), name, first,
        length.value_or(0), start.value_or(0));
  }

  void check_padding(std::size_t group, std::int64_t part, std::int64_t used) const {
    const Rank& first = ranks_[0];
    if (const auto counts = first.pickle().find(first.root, "partition_count")) {
      const PickleValue& count = first.pickle()[item(first, *counts, group, "partition_count")];
      if (count.kind == PickleKind::integer &&
          count.integer != static_cast<std::int64_t>(ranks_.size())) {
        fail_input("'{}' is one of {} of data parallelism, and the files of {} are there",
                   first.file->name(), counted(count.integer, "rank"), ranks_.size());
      }
    }
    std::int64_t padding = 0;
    for (const Rank& rank : ranks_) {
      const auto all = rank.pickle().find(rank.root, "group_paddings");
      if (!all) return;
      padding += rank.pickle()[item(rank, *all, group, "group_paddings")].integer;
    }
    if (used + padding == part * static_cast<std::int64_t>(ranks_.size())) return;
    fail_input(
        "'{}': the group {} of parameters has {} by the shapes in '{}', and its {} "
        "hold {} of each, {} of which are said to fill it up",
        first.file->name(), group, counted(used, "element"), model_.name(),
        counted(ranks_.size(), "rank"), part, padding);
  }

  // Stage 3: each parameter is padded and split into equal partitions separately.
  void collect_cut_parameters(std::size_t group, int which, Tensors& out) const {
    const auto world = static_cast<std::int64_t>(ranks_.size());
    std::int64_t at = 0;
    for (const ZeroParameter& parameter : groups_[group]) {
      const std::int64_t part = (parameter.count + world - 1) / world;
      PiecedWeights::Tensor tensor = begin(parameter);
      for (std::int64_t rank = 0; rank < world; ++rank) {
        const std::int64_t count = std::min(part, parameter.count - rank * part);
        if (count <= 0) break;
        const Rank& from = ranks_[static_cast<std::size_t>(rank)];
        tensor.pieces.push_back({from.file, &share(from, group, which), at, count});
      }
      at += part;
      out.push_back(std::move(tensor));
    }
    for (const Rank& rank : ranks_) {
      if (const std::int64_t held = share(rank, group, which).count(); held != at) {
        fail_input(
            "'{}': the group {} of parameters has {}, and by the shapes in '{}' a "
            "rank of {} has {}",
            rank.file->name(), group, counted(held, "element"), model_.name(), world, at);
      }
    }
  }

  const TorchFile& model_;
  std::vector<Group> groups_;
  std::vector<Rank> ranks_;
  bool whole_parameters_ = true;  // split by group: stages 1 and 2
};

}  // namespace

// Parses "param_shapes": a dictionary from names to shapes for each group.
std::vector<Group> read_param_shapes(const TorchFile& file) {
  const Pickle& pickle = file.pickle();
  const PickleId list = wanted(file, pickle.root(), "param_shapes");
  if (pickle.kind(list) != PickleKind::list) {
    fail_input("'{}' has {} as param_shapes, and a list of groups was expected", file.name(),
               pickle.shown(list));
  }
  std::vector<Group> groups;
  for (const PickleId dict : pickle.children(list)) {
    Group& group = groups.emplace_back();
    const auto items = pickle.children(dict);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      ZeroParameter parameter;
      bool sound = pickle.kind(items[i]) == PickleKind::text &&
                   pickle.kind(items[i + 1]) == PickleKind::tuple;
      if (sound) parameter.name = pickle[items[i]].text;
      for (const PickleId size :
           sound ? pickle.children(items[i + 1]) : std::span<const PickleId>()) {
        const PickleValue& value = pickle[size];
        sound = sound && value.kind == PickleKind::integer && value.integer > 0 &&
                !__builtin_mul_overflow(parameter.count, value.integer, &parameter.count);
        parameter.shape.push_back(value.integer);
      }
      if (!sound || parameter.shape.size() > max_tensor_rank) {
        fail_input("'{}' has {} in param_shapes, and a name with a shape was expected", file.name(),
                   pickle.shown(items[i]));
      }
      group.push_back(std::move(parameter));
    }
  }
  return groups;
}

double optimizer_step(const TorchFile& file, PickleId id) {
  const Pickle& pickle = file.pickle();
  const PickleValue& value = pickle[id];
  if (value.kind == PickleKind::integer) return static_cast<double>(value.integer);
  if (value.kind == PickleKind::real) return value.real();
  if (value.kind == PickleKind::tensor && pickle.tensor(id).count() == 1) {
    const PickleTensor& tensor = pickle.tensor(id);
    std::byte bytes[8];
    file.read(tensor, 0, 1, bytes);
    if (tensor.type->ours == DType::f32) {
      float read;
      std::memcpy(&read, bytes, sizeof read);
      return read;
    }
    if (tensor.type->ours == DType::i64) {
      std::int64_t read;
      std::memcpy(&read, bytes, sizeof read);
      return static_cast<double>(read);
    }
  }
  fail_input("'{}' has {} as its optimizer step, but a number was expected", file.name(),
             pickle.shown(id));
}

void refuse_frozen_parameters(const TorchFile& model) {
  const auto frozen = model.pickle().find(model.pickle().root(), "frozen_param_shapes");
  if (!frozen || model.pickle().children(*frozen).empty()) return;
  fail_input("'{}' has frozen parameters (frozen_param_shapes), which are not supported",
             model.name());
}

PiecedWeights::PiecedWeights(std::string name, std::vector<Tensor> tensors)
    : WeightFile(std::move(name), entries(tensors)) {
  for (Tensor& tensor : tensors) pieces_.push_back(std::move(tensor.pieces));
}

std::vector<WeightEntry> PiecedWeights::entries(const std::vector<Tensor>& tensors) {
  std::vector<WeightEntry> out;
  for (const Tensor& tensor : tensors) out.push_back(tensor.entry);
  return out;
}

void PiecedWeights::read(const WeightEntry& tensor, std::int64_t begin, std::int64_t end,
                         std::byte* dst) const {
  std::int64_t at = 0;
  for (const Piece& piece : pieces_[position(tensor)]) {
    const std::int64_t first = std::max(begin, at), last = std::min(end, at + piece.count);
    if (first < last) {
      piece.file->read(*piece.tensor, piece.begin + first - at, piece.begin + last - at,
                       dst + (first - begin) * size_of(*tensor.dtype));
    }
    at += piece.count;
  }
}

ZeroStates open_zero_states(const Files& files, const TorchFile& model) {
  return ZeroReader(files, model).read();
}

}  // namespace trireme
