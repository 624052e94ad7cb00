// `trireme inspect` for folders with weight files of other programs.
#include <fnmatch.h>

#include <algorithm>

#include "base/counted.h"
#include "checkpoint/foreign.h"
#include "cli/inspect/report.h"
#include "formats/huggingface/folder.h"
#include "formats/weight_file.h"

namespace trireme::cli {
namespace {

// Searches the folder, its rank folders, and the parameter folders of DeepSpeed's `zero`.
std::vector<fs::path> weight_files(const fs::path& folder) {
  constexpr const char* patterns[] = {"*.safetensors",        "pytorch_model*.bin",
                                      "consolidated.*.pth",   "model_optim_rng.pt",
                                      "*[_-]model_states.pt", "*_optim_states.pt"};
  std::vector<fs::path> files;
  const auto add = [&](const fs::path& path) {
    const std::string name = path.filename().string();
    const bool known = std::ranges::any_of(
        patterns, [&](const char* pattern) { return fnmatch(pattern, name.c_str(), 0) == 0; });
    if (known && fs::is_regular_file(path)) files.push_back(path);
  };
  for (const auto& item : fs::directory_iterator(folder)) {
    add(item.path());
    if (!item.is_directory() || !item.path().filename().string().starts_with("mp_rank_")) continue;
    for (const auto& part : fs::directory_iterator(item.path())) add(part.path());
  }
  std::error_code error;  // the folder may not exist
  for (const auto& parameter : fs::directory_iterator(folder / "zero", error)) {
    for (const char* name : {"fp32.pt", "exp_avg.pt", "exp_avg_sq.pt"}) {
      if (fs::is_regular_file(parameter.path() / name)) files.push_back(parameter.path() / name);
    }
  }
  std::ranges::sort(files);
  return files;
}

// Whether it is a file in which Megatron-style programs store a run's arguments.
bool has_arguments(const fs::path& path) {
  const std::string name = path.filename().string();
  return name == "model_optim_rng.pt" || name.ends_with("mp_rank_00_model_states.pt");
}

}  // namespace

bool inspect_weights(const InspectOptions& options) {
  const fs::path folder = options.path;
  const std::vector<fs::path> paths = weight_files(folder);
  if (paths.empty()) return false;
  open_huggingface_weights(folder);  // rejects incomplete sets of shards
  std::vector<InspectRow> rows;
  std::vector<std::string> names;
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;
  for (const fs::path& path : paths) {
    const auto file = open_weight_file(path);
    names.push_back(path.lexically_relative(folder).string());
    bytes += fs::file_size(path);
    // Per-rank files contain parts under the same names.
    const bool is_rank = path.extension() == ".pth" || path.extension() == ".pt";
    for (const WeightEntry& entry : file->tensors()) {
      const std::uint64_t size =
          entry.dtype ? static_cast<std::uint64_t>(entry.count() * size_of(*entry.dtype)) : 0;
      rows.push_back({is_rank ? fmt::format("{}: {}", names.back(), entry.name) : entry.name,
                      std::string(entry.type), entry.shape, size});
      elements += entry.count();
      const bool too_many = entry.repeats && entry.count() > most_repeated;
      if (!options.stats || !entry.dtype || too_many) continue;
      add_stats(rows.back(), *entry.dtype, entry.count(),
                [&](std::int64_t begin, std::int64_t end, std::byte* dst) {
                  file->read(entry, begin, end, dst);
                });
    }
  }
  const auto run = std::ranges::find_if(paths, has_arguments);
  const std::string note = run != paths.end() ? note_of_arguments(*run) : "";
  report(options,
         fmt::format("files of weights in {}\n{}, {}, {} in {}\n{}", options.path,
                     counted(rows.size(), "tensor"), counted(elements, "element"),
                     human_bytes(bytes), counted(names.size(), "file"),
                     note.empty() ? "" : fmt::format("note: {}\n", note)),
         {{"kind", "weights"},
          {"path", options.path},
          {"files", names},
          {"tensor_count", rows.size()},
          {"elements", elements},
          {"bytes", bytes},
          {"note", note}},
         rows);
  return true;
}

}  // namespace trireme::cli
