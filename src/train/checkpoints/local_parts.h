// Finds local checkpoints on the disks of all nodes: which rank can read which rank's part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/progress.h"

namespace trireme {

// By rank: the rank on another node that keeps copies of its local checkpoints. Nodes, in the order
// of their first ranks, keep those of the node before. Empty if all ranks are on one node.
std::vector<int> copy_holders(const std::vector<std::string>& hosts);

// A run's folder on a node's disk has a folder of checkpoints for each rank of the node, and for
// each rank whose copies the node keeps.
fs::path local_folder(const fs::path& run, int owner, bool copy);

struct LocalFolder {
  int owner = 0;
  bool copy = false;
  fs::path path;
};
std::vector<LocalFolder> local_folders(const fs::path& run);

// A part of a local checkpoint: what rank `owner` saved, readable by rank `reader`.
struct LocalPart {
  int reader = 0, owner = 0;
  bool copy = false;
  std::int64_t step = 0;
  std::string branch;  // of the run's start that saved it
  std::string layout;  // of the owner's tensors

  bool operator==(const LocalPart&) const = default;
};

// Parts in a folder that directly follow the checkpoint `shared` in the run's folder. They are not
// verified: only their manifests are read.
std::vector<LocalPart> parts_in(const LocalFolder& folder, int reader, std::int64_t shared);

// Text with a line per part, without spaces in branch and layout; for messages between ranks.
std::string to_text(const std::vector<LocalPart>& parts);
std::vector<LocalPart> parts_of_text(const std::string& text);

// A step of which every rank's part was found, by rank.
struct LocalStep {
  std::int64_t step = 0;
  std::vector<LocalPart> parts;
};

// Returns the newest step that all ranks have saved in one branch with these layouts, or nullopt.
// Each rank takes its own part, otherwise a copy that it can read, otherwise another rank's.
std::optional<LocalStep> newest_step(const std::vector<LocalPart>& found,
                                     const std::vector<std::string>& layouts);

}  // namespace trireme
