// Finds the step of a run and, by their names, the files of its ranks.
#include "formats/deepspeed/step.h"

#include <algorithm>
#include <array>

#include "base/counted.h"
#include "base/error.h"
#include "formats/deepspeed/names.h"
#include "formats/run_steps.h"

namespace trireme {
namespace {

constexpr std::array<const char*, 2> latest_files{"latest", "latest_universal"};

bool is_step(const fs::path& folder) {
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    const std::string name = item.path().filename().string();
    if (name.ends_with("_model_states.pt") && name.find("mp_rank_") != name.npos) return true;
    if (name.starts_with("layer_") && name.ends_with("-model_states.pt")) return true;
  }
  return false;
}

// The folder of the step to open, or "".
fs::path find_step(const fs::path& folder) {
  if (is_step(folder)) return folder;
  for (const char* latest : latest_files) {
    const std::string step = step_named_in(folder / latest);
    const bool plain = !step.empty() && step.find('/') == step.npos && step != "." && step != "..";
    if (plain && is_step(folder / step)) return folder / step;
  }
  // A run with a single step does not need a file that names it.
  const bool names_one =
      fs::exists(folder / latest_files[0]) || fs::exists(folder / latest_files[1]);
  const std::vector<std::string> steps = whole_steps(folder, is_step);
  return !names_one && steps.size() == 1 ? folder / steps[0] : fs::path();
}

}  // namespace

bool is_deepspeed_folder(const fs::path& folder) {
  return !find_step(folder).empty() || fs::exists(folder / latest_files[1]) ||
         !whole_steps(folder, is_step).empty();
}

fs::path deepspeed_step_folder(const fs::path& folder) {
  if (const fs::path step = find_step(folder); !step.empty()) return step;
  const bool universal = !fs::exists(folder / latest_files[0]);
  const fs::path latest = folder / latest_files[universal ? 1 : 0];
  const std::string whole = whole_steps_text(folder, whole_steps(folder, is_step));
  if (!fs::exists(latest)) {
    fail_input("'{}' has no file '{}' that names the step to read; {}", folder.string(),
               latest_files[0], whole);
  }
  const std::string step = step_named_in(latest).substr(0, 40);
  fail_input(
      "'{}' names the step {:?}, and '{}' does not hold a checkpoint of DeepSpeed "
      "(mp_rank_XX_model_states.pt); {}",
      latest.string(), step, (folder / step).string(), whole);
}

DeepspeedFiles list_deepspeed_files(const fs::path& step) {
  DeepspeedFiles files;
  for (const auto& item : fs::directory_iterator(step)) {
    const fs::path& path = item.path();
    const std::string name = path.filename().string();
    if (name.starts_with("expp_rank_") || name.find("_expert_") != name.npos)
      fail_input("'{}' contains experts ('{}'), which are not supported", step.string(), name);
    std::vector<int> at = numbers_in(name, "mp_rank_#_model_states.pt");
    if (!at.empty()) files.models[at[0]] = path;
    at = numbers_in(name, "zero_pp_rank_#_mp_rank_#_model_states.pt");
    if (!at.empty() && at[0] == 0) files.models.emplace(at[1], path);
    for (const char* pattern : {"zero_pp_rank_#_mp_rank_#_optim_states.pt",
                                "bf#_zero_pp_rank_#_mp_rank_#_optim_states.pt"}) {
      at = numbers_in(name, pattern);
      if (!at.empty()) files.optimizer[at.back()][at[at.size() - 2]] = path;
    }
    at = numbers_in(name, "layer_#-model_#-model_states.pt");
    if (!at.empty()) files.layers[at[0]][at[1]] = path;
    at = numbers_in(name, "layer_#-model_states.pt");
    if (!at.empty()) files.layers[at[0]][0] = path;
  }
  return files;
}

std::vector<std::shared_ptr<const TorchFile>> open_zero_files(const fs::path& step, int model_rank,
                                                              const DeepspeedFiles::ByRank& found,
                                                              const TorchFile& model) {
  const auto told = model.pickle().find_integer(model.pickle().root(), "dp_world_size");
  const std::int64_t count = std::clamp<std::int64_t>(told.value_or(std::ssize(found)), 1, 1 << 20);
  std::vector<std::shared_ptr<const TorchFile>> files;
  for (int rank = 0; rank < count; ++rank) {
    const auto path = found.find(rank);
    if (path == found.end()) {
      fail_input(
          "'{}' lacks '[bf16_]zero_pp_rank_{}_mp_rank_{:02d}_optim_states.pt': the run had {} of "
          "data parallelism, but {} of this model-parallel rank {} present",
          step.string(), rank, model_rank, counted(count, "rank"), counted(found.size(), "file"),
          found.size() == 1 ? "is" : "are");
    }
    files.push_back(std::make_shared<const TorchFile>(path->second));
  }
  if (std::ssize(found) > count) {
    fail_input("'{}' has the files of {} ZeRO ranks for model rank {}, but the run had {}",
               step.string(), found.size(), model_rank, count);
  }
  return files;
}

}  // namespace trireme
