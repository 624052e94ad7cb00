// Run folders are recognized by the files that a run writes first.
#include "view/run_folders.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <set>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::size_t most_entries_looked_at = 50'000;

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  for (const char* file : {"status.json", "metrics.jsonl", "config.toml", "checkpoints"})
    if (fs::exists(folder / file, ignored)) return true;
  return false;
}

// Subfolders that a run creates, some of which look like run folders.
bool is_part_of_a_run(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return name.starts_with('.') || name == "checkpoints" || name == "samples" || name == "exports";
}

// Searches folders for runs at any depth, breadth first.
class RunFinder {
 public:
  void look_below(const fs::path& top, const std::function<void(const fs::path&)>& add) {
    std::deque<fs::path> waiting = {top};
    for (; !waiting.empty(); waiting.pop_front()) {
      const fs::path folder = waiting.front();
      std::error_code error;
      // Symbolic links may form cycles.
      if (!seen_.insert(fs::canonical(folder, error)).second || error) continue;
      if (is_run(folder)) add(folder);
      for (fs::path& sub : folders_in(folder)) waiting.push_back(std::move(sub));
    }
  }
  bool gave_up() const { return entries_ >= most_entries_looked_at; }

 private:
  std::vector<fs::path> folders_in(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end && !gave_up();
         at.increment(error), ++entries_) {
      std::error_code ignored;
      if (at->is_directory(ignored) && !is_part_of_a_run(at->path())) found.push_back(at->path());
    }
    std::ranges::sort(found);
    return found;
  }

  std::set<fs::path> seen_;
  std::size_t entries_ = 0;
};

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
  RunFinder finder;
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
      fail_input("'{}' {}: expected the folder of a run (run.dir) or a folder that contains runs",
                 folder.string(), fs::exists(folder, error) ? "is not a folder" : "does not exist");
    finder.look_below(folder, add);
  }
  runs.gave_up = finder.gave_up();
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
