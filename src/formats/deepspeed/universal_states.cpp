// Lists the folders and reopens files when read, since a large model has thousands of them.
#include "formats/deepspeed/universal_states.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "base/counted.h"
#include "base/error.h"
#include "formats/megatron/names.h"

namespace trireme {
namespace {

using Models = std::vector<std::shared_ptr<const TorchFile>>;
using Shapes = std::map<std::string, std::vector<std::int64_t>>;

constexpr const char* whole_file = "fp32.pt";
constexpr std::array<const char*, adam_moments> moment_files{"exp_avg.pt", "exp_avg_sq.pt"};

// The file's tensor: the value of "param", or the whole content (ZeRO stage 3).
const PickleTensor& tensor_of(const TorchFile& file) {
  const Pickle& pickle = file.pickle();
  const auto named = pickle.find(pickle.root(), "param");
  const PickleId id = named.value_or(pickle.root());
  if (pickle.kind(id) == PickleKind::tensor) return pickle.tensor(id);
  fail_input("'{}' contains {}, but a tensor named 'param' was expected", file.name(),
             pickle.shown(id));
}

// Checks that a parameter's name can be the name of its folder.
void require_name_of_folder(const TorchFile& model, const std::string& name) {
  const bool leads_elsewhere = name.find('/') != name.npos || name.find('\0') != name.npos;
  if (!name.empty() && name != "." && name != ".." && !leads_elsewhere) return;
  fail_input("'{}' lists a parameter {:?} (param_shapes), which is not a valid folder name",
             model.name(), name);
}

// One tensor per file.
class FilesOfTensors : public WeightFile {
 public:
  FilesOfTensors(std::string name, std::vector<WeightEntry> tensors, std::vector<fs::path> paths)
      : WeightFile(std::move(name), std::move(tensors)), paths_(std::move(paths)) {}

  void read(const WeightEntry& tensor, std::int64_t begin, std::int64_t end,
            std::byte* dst) const override {
    const auto file = open(position(tensor));
    file->read(tensor_of(*file), begin, end, dst);
  }

 private:
  std::shared_ptr<const TorchFile> open(std::size_t at) const {
    constexpr std::size_t most_opened = 16;
    const std::scoped_lock lock(mutex_);
    const auto found = opened_.find(at);
    if (found != opened_.end()) return found->second;
    if (opened_.size() == most_opened) opened_.clear();
    return opened_[at] = std::make_shared<const TorchFile>(paths_[at]);
  }

  std::vector<fs::path> paths_;
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, std::shared_ptr<const TorchFile>> opened_;
};

class UniversalReader {
 public:
  UniversalReader(const fs::path& zero, const Models& models) : zero_(zero) {
    // The ranks' local shapes; without tensor parallelism they equal the global shapes.
    for (const auto& model : models) {
      refuse_frozen_parameters(*model);
      for (const auto& group : read_param_shapes(*model)) {
        for (const ZeroParameter& parameter : group) {
          require_name_of_folder(*model, parameter.name);
          if (shapes_.emplace(parameter.name, parameter.shape).second)
            listed_in_[parameter.name] = model->name();
        }
      }
    }
    check_folders();
  }

  ZeroStates read() const {
    ZeroStates out;
    out.stage = 3;
    out.weights = collect(whole_file, nullptr);
    out.steps = steps();
    for (std::size_t which = 0; out.steps > 0 && which < moment_files.size(); ++which)
      out.moments[which] = collect(moment_files[which], out.weights.get());
    return out;
  }

 private:
  // Checks that parameters and folders match one to one.
  void check_folders() const {
    for (const auto& [name, shape] : shapes_) {
      if (fs::is_directory(zero_ / name)) continue;
      fail_input("'{}' lacks the folder of the parameter '{}', which '{}' lists (param_shapes)",
                 zero_.string(), name, listed_in_.at(name));
    }
    for (const auto& item : fs::directory_iterator(zero_)) {
      const std::string name = item.path().filename().string();
      if (!item.is_directory() || shapes_.contains(name) || is_megatron_buffer(name)) continue;
      fail_input(
          "'{}' holds '{}', and none of the files of ranks lists such a parameter (param_shapes): "
          "it is of another run, or of a kind that is not read",
          zero_.string(), name);
    }
  }

  fs::path file_of(const std::string& name, const char* file) const {
    const fs::path folder = name.empty() ? zero_ : zero_ / name;
    if (fs::is_regular_file(folder / file)) return folder / file;
    fail_input("'{}' lacks '{}', which DeepSpeed's conversion to a universal checkpoint writes",
               folder.string(), file);
  }

  // Collects one file per parameter. `like` has the weights, whose shapes the moments must match.
  std::unique_ptr<WeightFile> collect(const char* file, const WeightFile* like) const {
    std::vector<WeightEntry> entries;
    std::vector<fs::path> paths;
    for (const auto& [name, rank_shape] : shapes_) {
      paths.push_back(file_of(name, file));
      const TorchFile opened(paths.back());
      const PickleTensor& tensor = tensor_of(opened);
      WeightEntry entry{name, tensor.type->name, tensor.type->ours, tensor.shape};
      // ZeRO stage 3 stores tensors flat.
      if (is_flat(opened) && entry.count() == count_of(rank_shape)) entry.shape = rank_shape;
      if (entry.dtype != DType::f32) {
        fail_input("'{}' contains {} {}, but F32 was expected", opened.name(), entry.type,
                   shape_text(entry.shape));
      }
      if (like && like->find(name)->shape != entry.shape) {
        fail_input("'{}' has the shape {}, and by '{}' beside it {} was expected", opened.name(),
                   shape_text(entry.shape), whole_file, shape_text(like->find(name)->shape));
      }
      entries.push_back(std::move(entry));
    }
    return std::make_unique<FilesOfTensors>(zero_.string(), std::move(entries), std::move(paths));
  }

  static bool is_flat(const TorchFile& file) {
    const Pickle& pickle = file.pickle();
    return pickle.kind(pickle.root()) == PickleKind::tensor &&
           pickle.tensor(pickle.root()).shape.size() == 1;
  }
  static std::int64_t count_of(const std::vector<std::int64_t>& shape) {
    return WeightEntry{{}, {}, {}, shape}.count();
  }

  // Steps per parameter or, depending on optimizer and stage, one count for the whole optimizer.
  std::int64_t steps() const {
    std::map<double, std::string> seen;
    for (const auto& [name, shape] : shapes_) {
      const fs::path path = zero_ / name / "step.pt";
      if (!fs::exists(path)) continue;
      const TorchFile file(path);
      seen.emplace(optimizer_step(file, file.pickle().root()), file.name());
    }
    if (seen.empty()) return steps_of_optimizer();
    if (seen.size() > 1) {
      fail_input("'{}' has {} and '{}' has {}: the files are from different steps of a run",
                 seen.begin()->second, seen.begin()->first, seen.rbegin()->second,
                 seen.rbegin()->first);
    }
    return whole_steps(seen.begin()->first, seen.begin()->second);
  }

  std::int64_t steps_of_optimizer() const {
    const TorchFile file(file_of("", "optimizer_state.pt"));
    const Pickle& pickle = file.pickle();
    std::optional<PickleId> step;
    const auto look_in = [&](std::optional<PickleId> groups) {
      if (!groups) return;
      const auto items = pickle.children(*groups);
      const bool is_dict = pickle.kind(*groups) == PickleKind::dict;
      for (std::size_t i = is_dict ? 1 : 0; i < items.size() && !step; i += is_dict ? 2 : 1)
        step = pickle.find(items[i], "step");
    };
    if (const auto adam = pickle.find(pickle.root(), "optimizer_state_dict")) {
      look_in(pickle.find(*adam, "state"));
    }
    look_in(pickle.find(pickle.root(), "param_groups"));
    if (!step) {
      fail_input("'{}' does not record the optimizer step, and neither does a step.pt",
                 file.name());
    }
    return whole_steps(optimizer_step(file, *step), file.name());
  }

  static std::int64_t whole_steps(double steps, const std::string& file) {
    if (const auto count = whole_count(steps)) return *count;
    fail_input("'{}' has {} as the number of optimizer steps", file, steps);
  }

  fs::path zero_;
  Shapes shapes_;
  std::map<std::string, std::string> listed_in_;
};

}  // namespace

ZeroStates open_universal_states(const fs::path& zero, const Models& models) {
  return UniversalReader(zero, models).read();
}

void require_halves_joined_apart(const fs::path& zero, const std::string& parameter) {
  for (const char* name : {whole_file, moment_files[0], moment_files[1]}) {
    const fs::path path = zero / parameter / name;
    if (!fs::exists(path)) continue;  // no moments if the run took no step
    const TorchFile file(path);
    const Pickle& pickle = file.pickle();
    if (pickle.find_integer(pickle.root(), "param_n_sub_params") == 2) continue;
    fail_input(
        "'{}' does not say that the rows of the gate and of what it gates were joined apart "
        "(param_n_sub_params 2), and the run had several ranks of tensor parallelism: their order "
        "is not certain. Convert the checkpoint again with a universal_checkpoint_info that lists "
        "'{}' among parameter_with_2_sub_params_cat_dim_0",
        file.name(), parameter);
  }
}

}  // namespace trireme
