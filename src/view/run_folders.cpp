// A folder of a run is known by the files that a run writes first.
#include "view/run_folders.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::size_t most_folder_entries = 10'000;

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  for (const char* file : {"status.json", "metrics.jsonl", "config.toml", "checkpoints"})
    if (fs::exists(folder / file, ignored)) return true;
  return false;
}

std::vector<fs::path> runs_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  std::size_t entries = 0;
  for (fs::directory_iterator at(folder, error), end;
       !error && at != end && entries < most_folder_entries; at.increment(error), ++entries) {
    std::error_code ignored;
    if (at->is_directory(ignored) && is_run(at->path())) found.push_back(at->path());
  }
  std::ranges::sort(found);
  return found;
}

// The last `parts` parts of a path.
std::string tail_of(const fs::path& path, std::size_t parts) {
  std::vector<std::string> all;
  for (const fs::path& part : path) all.push_back(part.string());
  fs::path tail;
  for (std::size_t i = all.size() - std::min(parts, all.size()); i < all.size(); ++i)
    tail /= all[i];
  return tail.string();
}

}  // namespace

FoundRuns find_runs(const std::vector<fs::path>& named) {
  FoundRuns runs;
  std::set<fs::path> seen;
  const auto add = [&](const fs::path& folder) {
    std::error_code error;
    const fs::path whole = fs::canonical(folder, error);
    if (error || !seen.insert(whole).second) return;
    if (runs.folders.size() < most_runs)
      runs.folders.push_back(whole);
    else
      ++runs.left_out;
  };
  for (const fs::path& folder : named) {
    std::error_code error;
    if (!fs::is_directory(folder, error))
      fail_input("'{}' {}: expected the folder of a run (run.dir) or a folder of such folders",
                 folder.string(), fs::exists(folder, error) ? "is not a folder" : "does not exist");
    if (is_run(folder))
      add(folder);
    else
      for (const fs::path& run : runs_in(folder)) add(run);
  }
  return runs;
}

std::vector<std::string> short_names(const std::vector<fs::path>& folders) {
  std::vector<std::string> names;
  for (std::size_t parts = 1; parts <= 64; ++parts) {
    names.clear();
    for (const fs::path& folder : folders) names.push_back(tail_of(folder, parts));
    if (std::set<std::string>(names.begin(), names.end()).size() == names.size()) break;
  }
  return names;
}

}  // namespace trireme
