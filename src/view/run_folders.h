// Finds the run folders that the user's arguments refer to.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace trireme {

inline constexpr std::size_t most_runs = 32;

struct FoundRuns {
  std::vector<fs::path> folders;  // at most most_runs
  std::size_t left_out = 0;
  bool gave_up = false;  // stopped searching: too many files and folders
};

// Each of `named` is a run's folder, or contains run folders at any depth, perhaps none yet.
// Rejects (exit code 2) paths that are not folders.
FoundRuns find_runs(const std::vector<fs::path>& named);

// Returns the shortest distinguishing names: `wide` and `deep`, or `a/wide` and `b/wide`.
std::vector<std::string> short_names(const std::vector<fs::path>& folders);

}  // namespace trireme
